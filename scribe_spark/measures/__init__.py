"""The measures of JSAC Section IV, and what is published of them."""

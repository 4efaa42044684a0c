"""The measures of JSAC Section IV, and the values that the papers publish."""

/* A browser refuses to start a worker from a file: the search's worker then runs in a frame. */
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      this.window = frame.contentWindow;
      this.window.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = this.window.document.createElement("script");
      script.src = url;
      this.loaded = new Promise((done) => { script.onload = done; });
      this.window.document.body.appendChild(script);
    }
    postMessage(data) {
      const event = new MessageEvent("message", { data });
      this.loaded.then(() => this.window.dispatchEvent(event));
    }
    terminate() {
      this.window.frameElement.remove();
    }
  };
  window.Worker = window.IFrameWorker;
}

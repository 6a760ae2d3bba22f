// Holds the connection for all tabs of a browser, which has only six over HTTP/1.1.
import { Events, eventsUrl } from "./events.js";

const events = new Events(eventsUrl);

self.onconnect = ({ ports: [port] }) => {
  const listener = (message) => port.postMessage(message);
  port.onmessage = ({ data }) => {
    if (data === "join") events.join(listener);
    if (data === "leave") events.leave(listener);
    if (data === "again") events.open();
  };
};

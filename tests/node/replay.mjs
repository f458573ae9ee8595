// Reads {name: stream} as JSON, plays each stream to openai-node's client in small pieces, and
// writes {name: {events, response}} or {name: {error}}. It opens no connection.

import OpenAI from "openai";
import { text } from "node:stream/consumers";

const PIECE = 7; // bytes: cuts every line, and characters of more than one byte

function inPieces(bytes) {
  return new ReadableStream({
    start(controller) {
      for (let start = 0; start < bytes.length; start += PIECE) {
        controller.enqueue(bytes.subarray(start, start + PIECE));
      }
      controller.close();
    },
  });
}

async function replay(stream) {
  const client = new OpenAI({
    apiKey: "none",
    baseURL: "http://antiphon.test/v1",
    maxRetries: 0,
    fetch: async () =>
      new Response(inPieces(new TextEncoder().encode(stream)), {
        headers: { "content-type": "text/event-stream" },
      }),
  });
  const events = [];
  const runner = client.responses.stream({ model: "scripted", input: "" });
  runner.on("event", (event) => events.push(event.type));
  try {
    return { response: await runner.finalResponse(), events };
  } catch (error) {
    return { error: error.message };
  }
}

const replies = {};
for (const [name, stream] of Object.entries(JSON.parse(await text(process.stdin)))) {
  replies[name] = await replay(stream);
}
process.stdout.write(JSON.stringify(replies));

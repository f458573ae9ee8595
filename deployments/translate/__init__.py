"""Pure translation: request to engine request, engine events to the events of a response."""

"""The Responses resource inside: values that every protocol is written from and the store keeps."""

/** The pipeline's view of an HTTP request and its response. */

export interface Incoming {
  readonly method: string
  /** Path and query as they were sent, with a mis-set base URL put right. */
  readonly url: string
  /** The client's address; empty where it is unknown. */
  readonly address: string
  header(name: string): string | undefined
  /**
   * The result of `take` for the whole body, decoded by its content coding, so far bounded that `JSON.parse` is not
   * dear: its size, its ratio to the sent bytes, and its structure are checked while it is read.
   * @throws InvalidRequest `request_too_large`, `unsupported_content_encoding`, `request_timeout`, and
   * `invalid_json` when it cannot be decoded, nests too deeply, or has too long a number or name; Unavailable and
   * TooManyRequests without memory for it
   */
  json<T>(limitBytes: number, take: (body: Buffer) => T | Promise<T>): Promise<T>
  /**
   * A body that is no JSON, decoded, in pieces as they arrive; its size and ratio are bounded. An error of `take` ends the
   * reading.
   * @throws InvalidRequest as `json` does, with `invalid_multipart` in place of `invalid_json`
   */
  pieces(limitBytes: number, take: (piece: Buffer) => void): Promise<void>
  /** Gives back the memory that was reserved for the body: nothing needs it any more. Idempotent. */
  release(): void
  /** @throws ClientDisconnected when the client has left */
  throwIfGone(): void
}

export interface Outgoing {
  /** Sets the head, once. It is sent with the first bytes. */
  head(status: number, headers: Readonly<Record<string, string>>): void
  /** Sends the head before there are bytes. */
  flush(): void
  readonly headSent: boolean
  /** @returns false while the socket is full; see {@link onDrain} */
  write(bytes: Uint8Array | string): boolean
  /** @param resume called whenever the socket has room again */
  onDrain(resume: () => void): void
  /** @param ascii whether the text is ASCII, which is cheaper to send */
  end(bytes?: Uint8Array | string, ascii?: boolean): void
  /** Breaks the connection: the only sign of failure in a byte stream. */
  destroy(): void
}

export interface ErrorResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** The value, to be serialised as JSON. */
  readonly body: unknown
}

/** What the house sees of an HTTP request and of its response. */

/** A thin view of the Node request. */
export interface Incoming {
  readonly method: string
  header(name: string): string | undefined
  /**
   * The whole body, decoded by its content coding and counted while read.
   * @throws InvalidRequest `request_too_large`, `unsupported_content_encoding`, `request_timeout`, `invalid_json` when it
   * cannot be decoded
   */
  body(limitBytes: number): Promise<Buffer>
  /**
   * The same, piece by piece as it arrives. What `take` throws ends it.
   * @throws as `body`, with `invalid_multipart` in place of `invalid_json`
   */
  pieces(limitBytes: number, take: (piece: Buffer) => void): Promise<void>
  /** @throws ClientDisconnected when the client has left */
  throwIfGone(): void
}

/** A thin view of the Node response. */
export interface Outgoing {
  /** Sets the head, once. It goes out with the first bytes. */
  head(status: number, headers: Readonly<Record<string, string>>): void
  /** Sends the head before there are bytes. */
  flush(): void
  readonly headSent: boolean
  /** A promise only while the socket is full. */
  write(bytes: Uint8Array | string): void | Promise<void>
  /** @param ascii the text is known to be ASCII, which is cheaper to send */
  end(bytes?: Uint8Array | string, ascii?: boolean): void
  /** Breaks the connection: the only failure signal a byte stream has. */
  destroy(): void
}

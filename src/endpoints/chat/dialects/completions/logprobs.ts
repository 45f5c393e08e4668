interface Token {
  readonly token: string
  readonly logprob: number | null
  readonly top_logprobs?: readonly Token[] | null
}

/**
 * The log probabilities of a text in the older form; null without any.
 * @param logprobs those of a choice or of a chunk, in the form of chat
 * @param offset where in the text they begin, in UTF-16 units
 */
export function textLogprobs(logprobs: unknown, offset: number): object | null {
  const { content } = (logprobs ?? {}) as { readonly content?: readonly Token[] | null }
  if (!content) return null
  let next = offset
  return {
    tokens: content.map(({ token }) => token),
    token_logprobs: content.map(({ logprob }) => logprob),
    top_logprobs: content.map(({ top_logprobs: others }) =>
      Object.fromEntries((others ?? []).map(({ token, logprob }) => [token, logprob])),
    ),
    text_offset: content.map(({ token }) => {
      const begins = next
      next += token.length
      return begins
    }),
  }
}

/** Signatures of a vendor's thoughts: they tie a conversation to whoever made them. */
import type { ChatMessage, ReasoningDetail } from '../../plugin.ts'

/** The last signature, or thought that only its vendor can read, among these. */
export function lastSignature(details: readonly ReasoningDetail[]): string | undefined {
  for (let i = details.length - 1; i >= 0; i--) {
    const bond = details[i]?.signature || details[i]?.data
    if (bond) return bond
  }
  return undefined
}

/** That of the last answer in a conversation that has one. */
export function signatureIn(messages: readonly ChatMessage[]): string | undefined {
  for (let i = messages.length - 1; i >= 0; i--) {
    const { role, reasoning_details: details } = messages[i]!
    const bond = role === 'assistant' && Array.isArray(details) ? lastSignature(details) : undefined
    if (bond !== undefined) return bond
  }
  return undefined
}

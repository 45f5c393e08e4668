/**
 * The table of difficult conversations: requests that OpenAI accepts and other vendors refuse, or that lose content on the
 * way to them. A provider sends each in a form that its vendor accepts, or refuses it and names the member.
 */
import type { ConversationRequest } from './build.ts'
import { CALLS } from './calls.ts'
import { MEDIA } from './media.ts'
import { SETTINGS } from './settings.ts'
import { TURNS } from './turns.ts'

const TABLE = { ...TURNS, ...CALLS, ...MEDIA, ...SETTINGS }

export type ConversationName = keyof typeof TABLE

export const DIFFICULT_CONVERSATIONS: Readonly<Record<ConversationName, ConversationRequest>> =
  TABLE

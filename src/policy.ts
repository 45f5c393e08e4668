/**
 * The policy of a key, and the tightening policy a request may carry: validation, merge, instructions. Pure functions.
 * Semantics of every member: guard design, sections 1 and 2.
 */
import { InvalidRequest } from './errors.ts'

export const CATEGORIES = [
  'code',
  'math',
  'roleplay',
  'medical',
  'legal',
  'financial-advice',
  'personal-data',
] as const
export type Category = (typeof CATEGORIES)[number]

/** Subjects that a policy can forbid with `deny`. */
export const CATEGORIES = [
  'code',
  'math',
  'roleplay',
  'medical',
  'legal',
  'financial-advice',
  'personal-data',
] as const
/** One of {@link CATEGORIES}. */
export type Category = (typeof CATEGORIES)[number]

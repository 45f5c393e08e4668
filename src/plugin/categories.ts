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
export type Category = (typeof CATEGORIES)[number]

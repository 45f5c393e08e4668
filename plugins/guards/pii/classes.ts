/** Classes that an operator can select. */
export const CLASSES = [
  'email',
  'phone',
  'card',
  'iban',
  'bank',
  'network',
  'device',
  'national-id',
  'travel-document',
  'person',
] as const
/** A class of personal data. */
export type EntityClass = (typeof CLASSES)[number]

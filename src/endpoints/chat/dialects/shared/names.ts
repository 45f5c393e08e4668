import { hash } from 'node:crypto'

/** The longest name of a tool that every vendor takes. */
export const MAX_NAME = 64

/** The name of a tool, shortened where it is longer than vendors take; equal names stay equal, different ones different. */
export function shortName(name: string): string {
  if (name.length <= MAX_NAME) return name
  return `${name.slice(0, 55)}_${hash('sha256', name, 'hex').slice(0, 8)}`
}

/** Where a deployment stands, in word and shape. */
import type { HealthState } from '../answers.ts'
import { html } from '../html.ts'

const MARKS: Readonly<Record<HealthState, string>> = { healthy: '●', probing: '◐', cooldown: '○' }
const TONES: Readonly<Record<HealthState, string>> = {
  healthy: 'ok',
  probing: 'warn',
  cooldown: 'bad',
}

/** Word and shape of where a deployment stands. */
export function Health({ state }: { readonly state: HealthState }) {
  return html`<span class=${TONES[state]}>${MARKS[state]} ${state}</span>`
}

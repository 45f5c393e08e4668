/** The changes of an object, member by member. */
import { MISSING } from '../format.ts'
import { html, type Content } from '../html.ts'
import { Heads } from './heads.ts'

export interface Change {
  readonly member: string
  readonly from: unknown
  readonly to: unknown
  /** What the change of a policy means for requests. */
  readonly order?: 'tighter' | 'looser' | 'changed' | 'equal'
}

export function Diff({
  changes,
  none = 'Nothing differs.',
}: {
  readonly changes: readonly Change[]
  readonly none?: Content
}) {
  const shown = changes.filter(({ order }) => order !== 'equal')
  if (shown.length === 0) return html`<p class="muted">${none}</p>`
  return html`<table class="diff">
    <${Heads} names=${['Member', 'Before', 'After', html`<span class="hidden">Effect</span>`]} />
    <tbody>
      ${shown.map(
        ({ member, from, to, order }) =>
          html`<tr key=${member}>
            <th scope="row" class="mono">${member}</th>
            <td class="mono from">${shortJson(from)}</td>
            <td class="mono to">${shortJson(to)}</td>
            <td class=${`order ${order ?? ''}`}>${order ?? ''}</td>
          </tr>`,
      )}
    </tbody>
  </table>`
}

export function changesBetween(
  before: Readonly<Record<string, unknown>>,
  after: Readonly<Record<string, unknown>>,
): Change[] {
  return [...new Set([...Object.keys(before), ...Object.keys(after)])]
    .filter((member) => JSON.stringify(before[member]) !== JSON.stringify(after[member]))
    .map((member) => ({ member, from: before[member], to: after[member] }))
}

export function shortJson(value: unknown): string {
  if (value === undefined || value === null) return MISSING
  return typeof value === 'string' ? value : JSON.stringify(value)
}

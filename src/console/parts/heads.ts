/** The head of a small table. */
import { html, type Content } from '../html.ts'

/** Names of columns; those in `end` are of numbers, which stand at the end of their column. */
export function Heads({
  names,
  end = [],
}: {
  readonly names: readonly Content[]
  readonly end?: readonly string[]
}) {
  return html`<thead>
    <tr>
      ${names.map(
        (name, place) =>
          html`<th key=${place} scope="col" class=${end.includes(name as string) ? 'end' : ''}>
            ${name}
          </th>`,
      )}
    </tr>
  </thead>`
}

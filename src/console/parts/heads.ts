/** The head of a small table. */
import { html, type Content } from '../html.ts'

/** Names of columns, without one that of their acts; those in `end` are of numbers, which stand at the end of their column. */
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
          html`<th key=${place} scope="col" class=${name === '' || name === 'Acts' || end.includes(name as string) ? 'end' : ''}>
            ${name === '' ? 'Acts' : name}
          </th>`,
      )}
    </tr>
  </thead>`
}

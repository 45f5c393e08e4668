/** Tables of the documents that are made from the code. They stand between `<!-- generated:<name> -->` and `<!-- /generated:<name> -->`. */
import { ENGINES } from '../../config/starter-search.ts'
import { VENDORS } from '../../config/starter-models.ts'

/** The text of each table, by its name. */
export const TABLES: Readonly<Record<string, () => string>> = {
  vendors: () =>
    table(
      ['variable', 'models'],
      VENDORS.map(({ variable, models }) => [
        code(variable),
        Object.keys(models).map(code).join(', '),
      ]),
    ),
  engines: () =>
    table(
      ['variable', 'engine', 'USD per search'],
      ENGINES.map(({ variable, name, price }) => [code(variable), code(name), price]),
    ),
}

const MARKED = /<!-- generated:(\S+) -->\n[^]*?<!-- \/generated:\1 -->/g

/** A page with its tables made anew. @throws Error for a table that has no name here */
export function generate(text: string): string {
  return text.replace(MARKED, (_, name: string) => {
    const make = TABLES[name]
    if (!make) throw new Error(`there is no generated table "${name}"`)
    return `<!-- generated:${name} -->\n\n${make()}\n\n<!-- /generated:${name} -->`
  })
}

function table(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  return [line(header), `|${'---|'.repeat(header.length)}`, ...rows.map(line)].join('\n')
}

function code(text: string): string {
  return `\`${text}\``
}

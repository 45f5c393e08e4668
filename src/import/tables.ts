/** Exports of the tables of other programs, recognised by their columns. */
import type { MigrationTable } from '../plugin.ts'
import { columnsOf, readTable, UnreadableSource, type Row } from './source.ts'

/** A file with a table. */
interface TableFile {
  readonly name: string
  readonly text: string
  /** Its kind, where the operator named it. */
  readonly kind?: string
}

/**
 * The rows of each table.
 * @param kinds the tables of the program, in the order in which they are looked for
 * @throws UnreadableSource that names the file and shows nothing of its content
 */
export function readTables(
  files: readonly TableFile[],
  kinds: readonly MigrationTable[],
): Map<string, readonly Row[]> {
  const tables = new Map<string, readonly Row[]>()
  const names = new Map<string, string>()
  for (const { name, text, kind: given } of files) {
    const { columns, rows } = read(name, text)
    const has = (wanted: MigrationTable) => wanted.columns.every((one) => columns.includes(one))
    const wanted = given === undefined ? kinds.find(has) : kinds.find(({ kind }) => kind === given)!
    if (!wanted) {
      const known = kinds.map(({ kind, columns: by }) => `${kind} (${by.join(', ')})`).join('; ')
      throw new UnreadableSource(`${name}: its columns are those of no table: ${known}`)
    }
    if (given !== undefined && columns.length > 0 && !has(wanted)) {
      const missing = wanted.columns.filter((one) => !columns.includes(one))
      throw new UnreadableSource(
        `${name}: its rows have no column ${missing.map((one) => JSON.stringify(one)).join(', ')}`,
      )
    }
    const other = names.get(wanted.kind)
    if (other !== undefined) {
      throw new UnreadableSource(`${name}: it has the table ${wanted.kind}, as ${other} has`)
    }
    names.set(wanted.kind, name)
    tables.set(wanted.kind, rows)
  }
  return tables
}

function read(name: string, text: string): { columns: readonly string[]; rows: readonly Row[] } {
  try {
    const rows = readTable(text, name)
    return { columns: columnsOf(rows, text, name), rows }
  } catch (error) {
    if (error instanceof UnreadableSource) throw new UnreadableSource(`${name}: ${error.message}`)
    throw error
  }
}

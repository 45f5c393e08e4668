/** Notes of an import, for people: the most harmful first, equal ones as one line. */
import type { Harm, MigrationNote } from '../plugin.ts'

/** The kinds of harm, the worst first, with what each means. */
const HARMS: Readonly<Record<Harm, string>> = {
  unserved: 'Models that are not served',
  locked: 'Keys that are created disabled, or left out',
  wider: 'Allowed here and not in the source',
  differs: 'Served in another way than in the source',
  elsewhere: 'Set in another place here',
  lost: 'Without a counterpart here',
  none: 'Without effect',
}
/** Places that one line names. */
const MAX_PLACES = 3

/** Notes that say the same. */
interface NoteGroup extends Pick<MigrationNote, 'harm' | 'message' | 'remedy'> {
  readonly places: string[]
}

/** The notes that an operator has to read: those without effect are only counted unless all are wanted. */
export function isNotable({ harm }: MigrationNote): boolean {
  return harm !== 'none'
}

/** Lines under headings. @param all whether to name what has no effect, in place of its number */
export function notesInWords(notes: readonly MigrationNote[], all: boolean): string[] {
  const byHarm = Map.groupBy(grouped(notes), ({ harm }) => harm)
  return (Object.keys(HARMS) as Harm[]).flatMap((harm) => {
    const groups = byHarm.get(harm) ?? []
    if (groups.length === 0) return []
    const count = groups.reduce((sum, { places }) => sum + places.length, 0)
    const heading = `${HARMS[harm]} (${count})`
    if (harm === 'none' && !all) return [`${heading}: repeat with --all to see them.`]
    return [`${heading}:`, ...groups.flatMap(linesOf)]
  })
}

function grouped(notes: readonly MigrationNote[]): NoteGroup[] {
  const groups = new Map<string, NoteGroup>()
  for (const { harm, where, message, remedy } of notes) {
    const key = JSON.stringify([harm, message, remedy])
    const known = groups.get(key)
    if (known) known.places.push(where)
    else
      groups.set(key, { harm, message, ...(remedy !== undefined && { remedy }), places: [where] })
  }
  return [...groups.values()]
}

function linesOf({ places, message, remedy }: NoteGroup): string[] {
  const named = places.slice(0, MAX_PLACES).join('; ')
  const rest = places.length - MAX_PLACES
  const where = rest > 0 ? `${named} and ${rest} more` : named
  return [`  ${where}: ${message}`, ...(remedy === undefined ? [] : [`    → ${remedy}`])]
}

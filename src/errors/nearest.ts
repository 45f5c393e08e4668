/** Spelling help: finds the known name that a mistyped one most likely means. */

/** Longer words are not compared, which bounds the time. */
const MAX_WORD = 200

/**
 * The candidate with the fewest edits to `word`, case ignored; the first of several. An edit inserts, deletes or replaces a
 * letter, or swaps two neighbours. Candidates with more than one edit per three letters, or more than three in all, do not
 * count.
 */
export function nearest(word: string, candidates: Iterable<string>): string | undefined {
  if (word.length > MAX_WORD) return undefined
  const typed = word.toLowerCase()
  let best: string | undefined
  let bound = Math.min(3, Math.floor(word.length / 3)) + 1
  for (const candidate of candidates) {
    const edits = distance(typed, candidate.toLowerCase(), bound)
    if (edits >= bound) continue
    best = candidate
    bound = edits
  }
  return best
}

/**
 * Number of edits between two words (optimal string alignment), or `bound` as soon as it cannot be smaller. Places that are `bound`
 * or more letters apart cannot belong together, so that each row has few of them.
 */
function distance(a: string, b: string, bound: number): number {
  if (Math.abs(a.length - b.length) >= bound) return bound
  let older = new Uint8Array(b.length + 1)
  let old = new Uint8Array(b.length + 1).fill(bound)
  let row = new Uint8Array(b.length + 1)
  for (let j = 0; j < Math.min(bound, b.length + 1); j++) old[j] = j
  for (let i = 1; i <= a.length; i++) {
    row.fill(bound)
    row[0] = Math.min(i, bound)
    let least = row[0]
    const last = Math.min(b.length, i + bound - 1)
    for (let j = Math.max(1, i - bound + 1); j <= last; j++) {
      const same = a[i - 1] === b[j - 1]
      let edits = Math.min(old[j - 1]! + (same ? 0 : 1), old[j]! + 1, row[j - 1]! + 1)
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      if (swapped) edits = Math.min(edits, older[j - 2]! + 1)
      row[j] = edits
      least = Math.min(least, edits)
    }
    if (least >= bound) return bound
    const unused = older
    older = old
    old = row
    row = unused
  }
  return Math.min(bound, old[b.length]!)
}

/** Removes an item from a list, if it is there. The last item takes its place. */
export function removeUnordered<T>(list: T[], item: T): void {
  const at = list.lastIndexOf(item)
  if (at < 0) return
  list[at] = list.at(-1)!
  list.pop()
}

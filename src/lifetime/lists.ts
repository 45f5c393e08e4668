/** Takes an item out of a list, if it is there. What came last mostly goes first, and is cheap to take out. */
export function removeUnordered<T>(list: T[], item: T): void {
  const at = list.lastIndexOf(item)
  if (at < 0) return
  if (at === list.length - 1) list.pop()
  else list.splice(at, 1)
}

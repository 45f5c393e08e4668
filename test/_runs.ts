/**
 * How often a random test runs: as often as given in `npm test`, many times as often in `npm run torture -- laws`.
 * @param count the runs in `npm test`
 */
export function runs(count: number): number {
  return count * Number(process.env.RUNS_TIMES ?? 1)
}

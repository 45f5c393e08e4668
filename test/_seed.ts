/**
 * The seed of the random tests: a new one in each run, which failures and titles show. The variable `SEED` repeats a run, with the
 * examples of fast-check. `.ci/run` sets it, so that a change is refused for what it did and not for the examples it met; the workflow
 * `laws` looks for new ones each night.
 */
export const SEED = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 31))

/** A provider as its author begins. */
import { execFileSync } from 'node:child_process'

execFileSync('sluicegate', ['plugin', 'new', 'provider', 'acme'])

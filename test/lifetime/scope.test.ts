import { expect, it } from 'vitest'
import { Scope } from '../../src/lifetime/scope.ts'

function recording(): { scope: Scope; events: string[] } {
  const events: string[] = []
  const scope = new Scope((error) => void events.push(`reported ${(error as Error).message}`))
  return { scope, events }
}

it('a scope runs its finalizers once, in reverse order, each after the one before it', async () => {
  const { scope, events } = recording()
  scope.defer(() => events.push('first'))
  scope.defer(async () => {
    await Promise.resolve()
    events.push('second')
  })
  scope.defer(() => events.push('third'))
  const closing = scope.close()
  expect(events).toEqual(['third'])
  scope.close()
  await closing
  expect(events).toEqual(['third', 'second', 'first'])
})

it('a scope whose finalizers need no time makes no promise', () => {
  const { scope } = recording()
  scope.defer(() => {})
  expect(scope.close()).toBeUndefined()
})

it('a finalizer that throws or rejects is reported, and the others run', async () => {
  const { scope, events } = recording()
  scope.defer(() => events.push('first'))
  scope.defer(() => Promise.reject(new Error('rejected')))
  scope.defer(() => {
    throw new Error('thrown')
  })
  await scope.close()
  expect(events).toEqual(['reported thrown', 'reported rejected', 'first'])
})

it('a report that throws keeps no finalizer from running', async () => {
  const events: string[] = []
  const scope = new Scope(() => {
    throw new Error('the log cannot be written')
  })
  scope.defer(() => events.push('first'))
  scope.defer(() => Promise.reject(new Error('rejected')))
  scope.defer(() => {
    throw new Error('thrown')
  })
  await scope.close()
  expect(events).toEqual(['first'])
})

it('a finalizer that is added after the end runs at once', () => {
  const { scope, events } = recording()
  scope.close()
  scope.defer(() => events.push('late'))
  expect(events).toEqual(['late'])
})

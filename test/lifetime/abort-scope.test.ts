import { describe, expect, it } from 'vitest'
import { AbortScope, abortScopeOf, offAbort, onAbort } from '../../src/lifetime/scope.ts'

function fail(error: unknown): void {
  throw error
}

describe('an abort scope', () => {
  it('calls its own listeners and those of its signal, once', () => {
    const scope = new AbortScope(fail)
    const events: string[] = []
    onAbort(scope.signal, () => events.push(`own, ${scope.signal.aborted}`))
    scope.signal.addEventListener('abort', () => events.push('signal'))
    const reason = new Error('enough')
    scope.abort(reason)
    scope.abort(new Error('again'))
    expect(events).toEqual(['signal', 'own, true'])
    expect(scope.signal.reason).toBe(reason)
  })

  it('does not call a listener that was removed', () => {
    const scope = new AbortScope(fail)
    const events: string[] = []
    const listen = (name: string) => {
      const listener = () => void events.push(name)
      onAbort(scope.signal, listener)
      return listener
    }
    const [first] = [listen('first'), listen('last')]
    offAbort(scope.signal, first)
    offAbort(scope.signal, first)
    scope.abort()
    expect(events).toEqual(['last'])
  })

  it('reports a listener that throws, and calls the others', () => {
    const events: string[] = []
    const scope = new AbortScope((error) => {
      events.push(`reported ${(error as Error).message}`)
      throw new Error('the report throws too')
    })
    onAbort(scope.signal, () => {
      throw new Error('thrown')
    })
    onAbort(scope.signal, () => events.push('next'))
    scope.abort()
    expect(events).toEqual(['reported thrown', 'next'])
  })

  it('is found by its own signal only', () => {
    const scope = new AbortScope(fail)
    expect(abortScopeOf(scope.signal)).toBe(scope)
    expect(abortScopeOf(new AbortController().signal)).toBeUndefined()
    expect(abortScopeOf(AbortSignal.any([scope.signal]))).toBeUndefined()
  })
})

describe('a signal without a scope', () => {
  it('calls listeners, and none that was removed', () => {
    const controller = new AbortController()
    let [called, removed] = [0, 0]
    const gone = () => void removed++
    onAbort(controller.signal, () => void called++)
    onAbort(controller.signal, gone)
    offAbort(controller.signal, gone)
    controller.abort()
    expect([called, removed]).toEqual([1, 0])
  })
})

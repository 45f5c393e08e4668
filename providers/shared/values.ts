/** Conversions that several providers need. */
import type { MediaFile, SpeechInput } from '../../src/plugin.ts'

/** A vendor's token count as a whole number; 0 for anything but a positive number. */
export function tokenCount(value: unknown): number {
  return typeof value === 'number' && value > 0 && Number.isFinite(value) ? Math.round(value) : 0
}

/** Bytes as base64. */
export function toBase64({ buffer, byteOffset, byteLength }: Uint8Array): string {
  return Buffer.from(buffer, byteOffset, byteLength).toString('base64')
}

/** A file as a data URL. */
export function toDataUrl({ bytes, mediaType }: Pick<MediaFile, 'bytes' | 'mediaType'>): string {
  return `data:${mediaType};base64,${toBase64(bytes)}`
}

/** Name of a voice, or id of a custom one. */
export function voiceName(voice: SpeechInput['voice']): string {
  return typeof voice === 'string' ? voice : voice.id
}

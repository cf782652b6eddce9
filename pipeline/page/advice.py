"""What to do about each error, in a sentence."""

from schemas.errors import ErrorCode

ADVICE = {
    ErrorCode.NOT_FOUND: "Check the path. The file may have been moved or its name mistyped.",
    ErrorCode.NOT_READABLE: "Give the account that runs halfsecond the right to read this file.",
    ErrorCode.NOT_A_REGULAR_FILE: "Give the path of a file, not of a folder, pipe or device.",
    ErrorCode.BAD_NAME: "Rename the file and try again.",
    ErrorCode.EMPTY_FILE: "The file holds no bytes. Upload or export it again.",
    ErrorCode.TOO_LARGE: "Cut or re-encode the clip to a smaller file, or raise the size limit in the settings.",
    ErrorCode.NOT_MEDIA: "This is no video and no sound, whatever its name says. Check that the right file was sent.",
    ErrorCode.PLAYLIST_REFUSED: "Playlists can name other files, so they are never followed. Send the clip itself.",
    ErrorCode.UNSUPPORTED_FORMAT: "Re-encode the clip as MP4 (H.264 and AAC) or WebM.",
    ErrorCode.DAMAGED_CONTAINER: "The file is cut off or broken. Upload or export it again.",
    ErrorCode.NO_VIDEO_STREAM: "There is neither picture nor sound that could be analysed. Check the export settings.",
    ErrorCode.UNSUPPORTED_VIDEO_CODEC: "Re-encode the pictures, for example as H.264.",
    ErrorCode.UNSUPPORTED_AUDIO_CODEC: "Re-encode the sound, for example as AAC or Opus.",
    ErrorCode.ENCRYPTED: "The clip is protected. Send a version without encryption.",
    ErrorCode.TOO_LONG: "Cut the clip, or raise the duration limit in the settings.",
    ErrorCode.TOO_MANY_PIXELS: "Scale the pictures down, or raise the pixel limit in the settings.",
    ErrorCode.DECODE_FAILED: "No picture could be decoded. The file is probably damaged: upload or export it again.",
    ErrorCode.DECODER_TIMED_OUT: "Decoding took too long. Re-encode the clip, or raise the limit in the settings.",
    ErrorCode.DECODER_CRASHED: "The clip broke the decoder (nothing else was harmed). Re-encode it and try again.",
    ErrorCode.DECODER_OUT_OF_MEMORY: "Decoding needed more memory than allowed. Scale the clip down and try again.",
    ErrorCode.DEADLINE_EXCEEDED: "Try again when the machine is less busy, or with a larger budget.",
    ErrorCode.MODEL_MISSING: "Run “halfsecond models pull”, then try again.",
    ErrorCode.MODEL_FAILED: "A model failed on this clip. Try again; if it stays, report it with the raw result.",
    ErrorCode.BAD_SETTING: "A setting of this installation is wrong. The message says which.",
    ErrorCode.INTERNAL: "This is a fault in halfsecond. Please report it together with the raw result.",
}

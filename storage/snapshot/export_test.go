package snapshot

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
)

// Repair corrects the checksums of a file, as far as it looks like a snapshot.
func Repair(file []byte) []byte {
	b := bytes.Clone(file)
	if len(b) < headBytes {
		return b
	}
	head, seed := encodeHead(int64(binary.LittleEndian.Uint64(b[12:])))
	copy(b, head)
	at := headBytes
	for at+chunkHeadBytes <= len(b) && b[at] == chunkTag {
		h := decodeChunkHead(b[at:])
		end := at + chunkHeadBytes + int(h.length)
		if end > len(b) {
			return b
		}
		binary.LittleEndian.PutUint32(b[at+9:], h.sumOf(seed, int64(at), b[at+chunkHeadBytes:end]))
		at = end
	}
	if at+endBytes <= len(b) && b[at] == endTag {
		sum := sha256.Sum256(b[:at+17])
		copy(b[at+17:], sum[:])
	}
	return b
}

package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/keelson-dev/keelson/storage"
)

// A snapshot is a head, chunks of records in ascending order of keys, and an end. All integers are little-endian;
// checksums are CRC-32C.
//
//	head:   magic 8 | version 4 | revision 8 | checksum of the head 4
//	chunk:  'c' 1 | length of the payload 4 | records in it 4 | checksum 4 | payload
//	record: revision 8 | length of the key 4 | length of the value 4 | key | value
//	end:    'e' 1 | records 8 | bytes of keys and values 8 | SHA-256 of all that is before it 32
//
// A chunk's checksum covers the head's checksum, the chunk's offset, the nine bytes before the checksum and the
// payload. Given where chunks begin, every content has one encoding; nothing follows the end.
const (
	magic   = "keelsnap"
	version = 1

	headBytes      = 24
	chunkHeadBytes = 13
	recordBytes    = 16
	endBytes       = 49

	chunkTag, endTag = 'c', 'e'

	// chunkSize is the payload size at which a chunk is complete.
	chunkSize = 1 << 20
	// maxRecord is the largest key with its value; maxPayload is the largest payload of a chunk.
	maxRecord  = 64 << 20
	maxPayload = chunkSize + maxRecord + recordBytes
)

// Errors of files; a *FileError is one of them.
var (
	// ErrDamaged: the file is truncated, or its content is not what was written.
	ErrDamaged = errors.New("snapshot is damaged")
	// ErrForeign: the file is not a snapshot.
	ErrForeign = errors.New("not a snapshot")
	// ErrVersion: the snapshot was written in a format that this version of the package does not know.
	ErrVersion = errors.New("unknown version of the snapshot format")
	// ErrNotEmpty: the store to restore into already holds records.
	ErrNotEmpty = errors.New("store is not empty")
)

// FileError says why a file cannot be used as a snapshot. Nothing was written.
type FileError struct {
	Offset int64  // of the error in the file
	Reason string // what is wrong
	Err    error  // ErrDamaged, ErrForeign or ErrVersion
}

// Error names the place and the reason.
func (e *FileError) Error() string {
	return fmt.Sprintf("%v: at byte %d: %s", e.Err, e.Offset, e.Reason)
}

// Unwrap returns Err.
func (e *FileError) Unwrap() error { return e.Err }

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli()) }

// encodeHead also returns the head's checksum, which seeds those of the chunks.
func encodeHead(revision int64) ([]byte, uint32) {
	b := append(make([]byte, 0, headBytes), magic...)
	b = binary.LittleEndian.AppendUint32(b, version)
	b = binary.LittleEndian.AppendUint64(b, uint64(revision))
	seed := checksum(b)
	return binary.LittleEndian.AppendUint32(b, seed), seed
}

func decodeHead(b []byte) (revision int64, seed uint32, err error) {
	if len(b) < len(magic) || string(b[:len(magic)]) != magic {
		return 0, 0, &FileError{0, "it does not begin as a snapshot does", ErrForeign}
	}
	if len(b) < headBytes {
		return 0, 0, &FileError{int64(len(b)), "the head is cut off", ErrDamaged}
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != version {
		return 0, 0, &FileError{8, fmt.Sprintf("it has version %d, this program knows %d", v, version), ErrVersion}
	}
	revision = int64(binary.LittleEndian.Uint64(b[12:]))
	want, seed := encodeHead(revision)
	if string(want) != string(b[:headBytes]) {
		return 0, 0, &FileError{20, "the head does not match its checksum", ErrDamaged}
	}
	if revision <= 0 {
		return 0, 0, &FileError{12, fmt.Sprintf("revision %d is not possible", revision), ErrDamaged}
	}
	return revision, seed, nil
}

// chunkHead is the part of a chunk before its payload.
type chunkHead struct {
	length, count, sum uint32
}

func (h chunkHead) encode() []byte {
	b := append(make([]byte, 0, chunkHeadBytes), chunkTag)
	b = binary.LittleEndian.AppendUint32(b, h.length)
	b = binary.LittleEndian.AppendUint32(b, h.count)
	return binary.LittleEndian.AppendUint32(b, h.sum)
}

func decodeChunkHead(b []byte) chunkHead {
	return chunkHead{binary.LittleEndian.Uint32(b[1:]), binary.LittleEndian.Uint32(b[5:]), binary.LittleEndian.Uint32(b[9:])}
}

// sumOf is the checksum that a chunk should have.
func (h chunkHead) sumOf(seed uint32, offset int64, payload []byte) uint32 {
	b := binary.LittleEndian.AppendUint64(nil, uint64(offset))
	b = append(b, h.encode()[:9]...)
	return crc32.Update(crc32.Update(seed, castagnoli(), b), castagnoli(), payload)
}

func appendRecord(b []byte, r storage.Record) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(r.Revision))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(r.Key)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(r.Value)))
	return append(append(b, r.Key...), r.Value...)
}

// decodeRecord reads the first record of b and returns its encoded length; ok is false if there is none. The value
// aliases b.
func decodeRecord(b []byte) (r storage.Record, length int, ok bool) {
	if len(b) < recordBytes {
		return r, 0, false
	}
	revision := binary.LittleEndian.Uint64(b)
	keyLength, valueLength := uint64(binary.LittleEndian.Uint32(b[8:])), uint64(binary.LittleEndian.Uint32(b[12:]))
	if revision == 0 || revision > math.MaxInt64 || keyLength == 0 || keyLength+valueLength > uint64(len(b)-recordBytes) {
		return r, 0, false
	}
	rest := b[recordBytes:]
	r = storage.Record{Key: string(rest[:keyLength]), Value: rest[keyLength : keyLength+valueLength : keyLength+valueLength], Revision: int64(revision)}
	return r, recordBytes + int(keyLength+valueLength), true
}

// encodeEnd omits the digest, which covers it.
func encodeEnd(records, bytes int64) []byte {
	b := binary.LittleEndian.AppendUint64([]byte{endTag}, uint64(records))
	return binary.LittleEndian.AppendUint64(b, uint64(bytes))
}

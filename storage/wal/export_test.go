package wal

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

// What the crash tests and the fuzz targets need beyond the API.
var (
	OpenIn         = open
	DecodeLog      = decodeLogAgain
	DecodeSnapshot = decodeSnapshotAgain
)

// decodeLogAgain decodes a payload and encodes it again.
func decodeLogAgain(payload []byte) ([]byte, error) {
	e, err := decodeEntry(payload)
	if err != nil {
		return nil, err
	}
	b := appendMark(nil, e.tag, e.revision)
	for _, o := range e.operations {
		b = appendOperation(b, o)
	}
	return b, nil
}

// decodeSnapshotAgain decodes a payload and encodes it again.
func decodeSnapshotAgain(payload []byte) ([]byte, error) {
	records, total, end, err := decodeSnapshot(payload)
	if err != nil {
		return nil, err
	}
	if end {
		return appendEnd(nil, total), nil
	}
	b := []byte{recordsFrame}
	for _, r := range records {
		b = appendRecord(b, r)
	}
	return b, nil
}

// Repair corrects the checksums of a log or a snapshot, as far as the file looks like one.
func Repair(file []byte) []byte {
	b := bytes.Clone(file)
	if len(b) < headerSize {
		return b
	}
	binary.LittleEndian.PutUint32(b[headerSize-4:], crc32.Checksum(b[:headerSize-4], castagnoli()))
	seed := crc32.Checksum(b[:headerSize], castagnoli())
	for at := headerSize; at+frameHeaderSize <= len(b); {
		end := at + frameHeaderSize + int(binary.LittleEndian.Uint32(b[at+4:]))
		if end > len(b) {
			break
		}
		h := frameHeader(seed, int64(at), b[at+frameHeaderSize:end])
		copy(b[at:], h[:])
		at = end
	}
	return b
}

package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/internal/timeline"
)

// The payload of a frame starts with its type.
const (
	batchFrame   = 'b' // a log: first revision 8 | operations, with consecutive revisions
	closedFrame  = 'c' // a log: next revision 8; the store was closed in good order
	nextFrame    = 'n' // a log: next revision 8; the last frame, as another log continues
	recordsFrame = 'r' // a snapshot: records in ascending order of keys
	endFrame     = 'e' // a snapshot: number of records 8
)

// An operation is: event 1 | key length 4 | value length 4 | key | value. A record is: revision 8 |
// key length 4 | value length 4 | key | value. Every content has one encoding only.

// operationBytes is the most that an encoding adds to key and value.
const operationBytes = 16

// operation is one change in the log, without the value it replaced.
type operation struct {
	event storage.EventType
	key   string
	value []byte
}

// errPayload: a payload with a correct checksum does not make sense.
var errPayload = errors.New("the frame's content is not valid")

func appendBatch(b []byte, changes []timeline.Change) []byte {
	b = append(b, batchFrame)
	b = binary.LittleEndian.AppendUint64(b, uint64(changes[0].Revision))
	for _, c := range changes {
		if c.After != nil {
			b = appendOperation(b, operation{storage.Put, c.After.Key, c.After.Value})
		} else {
			b = appendOperation(b, operation{storage.Delete, c.Before.Key, nil})
		}
	}
	return b
}

func appendOperation(b []byte, o operation) []byte {
	return appendPair(append(b, byte(o.event)), o.key, o.value)
}

// appendMark encodes a frame of a log without operations.
func appendMark(b []byte, tag byte, next int64) []byte {
	return binary.LittleEndian.AppendUint64(append(b, tag), uint64(next))
}

func appendRecord(b []byte, r storage.Record) []byte {
	return appendPair(binary.LittleEndian.AppendUint64(b, uint64(r.Revision)), r.Key, r.Value)
}

func appendEnd(b []byte, records int64) []byte {
	return binary.LittleEndian.AppendUint64(append(b, endFrame), uint64(records))
}

func appendPair(b []byte, key string, value []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(key)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(value)))
	return append(append(b, key...), value...)
}

// decoder decodes a payload. After the first failure it returns zero values.
type decoder struct {
	rest   []byte
	failed bool
}

func (d *decoder) take(n uint64) []byte {
	if d.failed || n > uint64(len(d.rest)) {
		d.failed = true
		return nil
	}
	taken := d.rest[:n]
	d.rest = d.rest[n:]
	return taken
}

func (d *decoder) byte() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) length() uint64 {
	if b := d.take(4); b != nil {
		return uint64(binary.LittleEndian.Uint32(b))
	}
	return 0
}

// number reads a revision or a count, which are never negative.
func (d *decoder) number() int64 {
	if b := d.take(8); b != nil {
		if n := binary.LittleEndian.Uint64(b); n <= math.MaxInt64 {
			return int64(n)
		}
	}
	d.failed = true
	return 0
}

// pair reads a key and a copy of its value.
func (d *decoder) pair() (string, []byte) {
	keyLength, valueLength := d.length(), d.length()
	key := string(d.take(keyLength))
	value := append([]byte{}, d.take(valueLength)...)
	if key == "" {
		d.failed = true
	}
	return key, value
}

// entry is a frame of a log.
type entry struct {
	tag        byte
	revision   int64       // of the first operation, or of the next one to come
	operations []operation // with consecutive revisions; none but in a batch
}

func decodeEntry(payload []byte) (entry, error) {
	d := decoder{rest: payload}
	e := entry{tag: d.byte(), revision: d.number()}
	for e.tag == batchFrame && !d.failed && len(d.rest) > 0 {
		event := storage.EventType(d.byte())
		key, value := d.pair()
		if event != storage.Put && (event != storage.Delete || len(value) > 0) {
			d.failed = true
		}
		e.operations = append(e.operations, operation{event, key, value})
	}
	known := e.tag == batchFrame || e.tag == closedFrame || e.tag == nextFrame
	if d.failed || len(d.rest) > 0 || !known || (e.tag == batchFrame) != (len(e.operations) > 0) {
		return entry{}, errPayload
	}
	return e, nil
}

// decodeSnapshot decodes a snapshot's payload: records, or the end with their total.
func decodeSnapshot(payload []byte) (records []storage.Record, total int64, end bool, err error) {
	d := decoder{rest: payload}
	switch d.byte() {
	case recordsFrame:
		for !d.failed && len(d.rest) > 0 {
			revision := d.number()
			key, value := d.pair()
			records = append(records, storage.Record{Key: key, Value: value, Revision: revision})
		}
		d.failed = d.failed || len(records) == 0
	case endFrame:
		total, end = d.number(), true
	default:
		d.failed = true
	}
	if d.failed || len(d.rest) > 0 {
		return nil, 0, false, errPayload
	}
	return records, total, end, nil
}

// checkSize refuses a write too large for a frame.
func checkSize(key string, value []byte) error {
	if size := len(key) + len(value); size > MaxRecordBytes {
		return fmt.Errorf("%w: %d bytes at %.100q, at most %d", storage.ErrTooLarge, size, key, MaxRecordBytes)
	}
	return nil
}

package wal

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"

	"github.com/keelson-dev/keelson/storage/internal/disk"
)

// Log and snapshot files are a header followed by frames:
//
//	header:  kind 8 | revision 8 | identity 8 | checksum 4
//	frame:   mark 4 | length 4 | checksum of the length 4 | checksum of the payload 4 | payload
//
// All integers are little-endian. The identity is the store's own random number. A frame's checksums also cover the
// file's header and the frame's offset, so a frame is valid at one place of one file only: neither a file of another
// store, nor an old copy of a log stored as a value, can pass for a part of this one.
const (
	headerSize      = 28
	frameHeaderSize = 16
	frameMark       = 0x6b6c7346

	// maxPayload bounds a frame, and so what a torn write can leave behind.
	maxPayload = MaxRecordBytes + 1<<20
)

// kind is the first eight bytes of a file.
type kind [8]byte

func logKind() kind      { return kind([]byte("klsnlog\x01")) }
func snapshotKind() kind { return kind([]byte("klsnsnp\x01")) }

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// header identifies a file: its kind, the revision it starts after (a log) or holds (a snapshot), and the store it
// belongs to.
type header struct {
	kind     kind
	revision int64
	identity uint64
}

func (h header) encode() []byte {
	b := append(make([]byte, 0, headerSize), h.kind[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.revision))
	b = binary.LittleEndian.AppendUint64(b, h.identity)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli()))
}

// seed starts the checksums of the file's frames.
func (h header) seed() uint32 { return crc32.Checksum(h.encode(), castagnoli()) }

// frameHeader returns the header of a frame with a payload at an offset.
func frameHeader(seed uint32, offset int64, payload []byte) [frameHeaderSize]byte {
	var h [frameHeaderSize]byte
	binary.LittleEndian.PutUint32(h[0:], frameMark)
	binary.LittleEndian.PutUint32(h[4:], uint32(len(payload)))
	place := lengthChecksum(seed, offset, uint32(len(payload)))
	binary.LittleEndian.PutUint32(h[8:], place)
	binary.LittleEndian.PutUint32(h[12:], crc32.Update(place, castagnoli(), payload))
	return h
}

func lengthChecksum(seed uint32, offset int64, length uint32) uint32 {
	var place [12]byte
	binary.LittleEndian.PutUint64(place[:], uint64(offset))
	binary.LittleEndian.PutUint32(place[8:], length)
	return crc32.Update(seed, castagnoli(), place[:])
}

// openFrame starts a frame in an empty buffer; closeFrame completes it after the payload was appended.
func openFrame(buffer []byte) []byte {
	var blank [frameHeaderSize]byte
	return append(buffer[:0], blank[:]...)
}

func closeFrame(frame []byte, seed uint32, offset int64) {
	h := frameHeader(seed, offset, frame[frameHeaderSize:])
	copy(frame, h[:])
}

// frameReader reads the frames of one file in order.
type frameReader struct {
	source disk.Source
	buffer *bufio.Reader
	seed   uint32
	offset int64 // of the next frame
	last   []byte
}

// badFrame says why no frame can be read at the reader's offset.
type badFrame struct {
	reason string
	// torn is false if a crash during a write cannot explain it.
	torn bool
}

func (b *badFrame) Error() string { return b.reason }

func damaged(reason string) error { return &badFrame{reason: reason} }

func perhapsTorn(reason string) error { return &badFrame{reason: reason, torn: true} }

// newFrameReader checks the header of a file against what it should be.
func newFrameReader(source disk.Source, want header) (*frameReader, error) {
	r := &frameReader{source: source, seed: want.seed(), offset: headerSize}
	r.buffer = bufio.NewReaderSize(io.NewSectionReader(source, 0, source.Size()), 256<<10)
	var got [headerSize]byte
	if _, err := io.ReadFull(r.buffer, got[:]); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, damaged("the header is cut off")
	} else if err != nil {
		return nil, err
	}
	if !bytes.Equal(got[:], want.encode()) {
		return nil, damaged("the header is not this file's")
	}
	return r, nil
}

// next returns the payload of the next frame, which is valid until the call after; io.EOF at the
// end of the file, or a badFrame when what follows is not one.
func (r *frameReader) next() ([]byte, error) {
	left := r.source.Size() - r.offset
	if left == 0 {
		return nil, io.EOF
	}
	var head [frameHeaderSize]byte
	if left < frameHeaderSize {
		return nil, perhapsTorn("the frame is cut off")
	}
	if _, err := io.ReadFull(r.buffer, head[:]); err != nil {
		return nil, err
	}
	length, ok := r.length(head[:], r.offset)
	if !ok {
		return nil, perhapsTorn("no frame starts here")
	}
	if length > left-frameHeaderSize {
		return nil, perhapsTorn("the frame is cut off")
	}
	if int64(cap(r.last)) < length {
		r.last = make([]byte, length)
	}
	payload := r.last[:length]
	if _, err := io.ReadFull(r.buffer, payload); err != nil {
		return nil, err
	}
	if head != frameHeader(r.seed, r.offset, payload) {
		// A later frame would have been written after this one was synced.
		return nil, &badFrame{reason: "checksum mismatch", torn: length == left-frameHeaderSize}
	}
	r.offset += frameHeaderSize + length
	return payload, nil
}

// length reads the length of a frame at an offset; ok is false if there is none.
func (r *frameReader) length(head []byte, offset int64) (length int64, ok bool) {
	n := binary.LittleEndian.Uint32(head[4:])
	ok = binary.LittleEndian.Uint32(head) == frameMark && n <= maxPayload &&
		binary.LittleEndian.Uint32(head[8:]) == lengthChecksum(r.seed, offset, n)
	return int64(n), ok
}

// resumes looks for a frame after the bad one at the reader's offset. A crash tears the last thing written, so a later
// frame means some other damage.
func (r *frameReader) resumes() (bool, error) {
	tail := make([]byte, r.source.Size()-r.offset)
	if _, err := r.source.ReadAt(tail, r.offset); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	mark := binary.LittleEndian.AppendUint32(nil, frameMark)
	for at := 1; at < len(tail); at++ {
		skip := bytes.Index(tail[at:], mark)
		if skip < 0 || at+skip+frameHeaderSize > len(tail) {
			return false, nil
		}
		at += skip
		if _, ok := r.length(tail[at:], r.offset+int64(at)); ok {
			return true, nil
		}
	}
	return false, nil
}

package codec

import (
	"encoding/binary"
	"reflect"
)

// The wire types of protobuf fields.
const (
	wireVarint = 0
	wireFixed8 = 1
	wireBytes  = 2
	wireBegin  = 3
	wireEnd    = 4
	wireFixed4 = 5
)

// message counts a protobuf message of a shape.
func (r *reader) message(s *shape, data []byte) {
	for r.total <= r.limit {
		var f part
		if f, data = next(data); data == nil {
			return // the end, or malformed
		}
		if of := s.fields[f.number]; of != nil {
			r.field(of, f)
		}
	}
}

// field counts one occurrence of a field.
func (r *reader) field(s *shape, f part) {
	switch s.kind {
	case reflect.Invalid:
		if s.quantity {
			for text, rest := next(f.payload); rest != nil && r.total <= r.limit; text, rest = next(rest) {
				r.quantity(text.payload)
			}
		}
	case reflect.Struct:
		r.message(s, f.payload)
	case reflect.Pointer:
		r.total += s.each
		r.field(s.elem, f)
	case reflect.Slice:
		n := 1
		if f.form == wireBytes && s.elem.kind == reflect.Invalid && s.each <= 8 {
			n = len(f.payload) // packed numbers: at least a byte each
		}
		r.total += n * s.each
		r.field(s.elem, f)
	case reflect.Map:
		r.total += s.each
		for entry, rest := next(f.payload); rest != nil && r.total <= r.limit; entry, rest = next(rest) {
			if entry.number == 2 {
				r.field(s.elem, entry)
			}
		}
	}
}

// part is a field of a message.
type part struct {
	number  int32
	form    uint64
	payload []byte
}

// next splits off the first field of a message, as leniently as the generated decoders: whatever they decode
// must be counted. rest is nil if there is no field, or if they would fail, too.
func next(data []byte) (f part, rest []byte) {
	tag, n := uvarint(data)
	if n == 0 {
		return part{}, nil
	}
	data = data[n:]
	begin, size := 0, -1
	switch tag & 7 {
	case wireVarint:
		_, size = uvarint(data) // a malformed one ends the message at the next call
	case wireFixed8:
		size = 8
	case wireFixed4:
		size = 4
	case wireBytes:
		var length uint64
		length, begin = uvarint(data)
		size = int(length) // an overflow is negative, or longer than the data
	case wireBegin:
		size = group(data)
	}
	if size < 0 || size > len(data)-begin {
		return part{}, nil
	}
	end := begin + size
	return part{number: int32(tag >> 3), form: tag & 7, payload: data[begin:end:end]}, data[end:]
}

// group returns the length of the rest of a group whose start tag has been read; negative if it does not end.
func group(data []byte) int {
	for at, depth := 0, 1; ; {
		tag, n := uvarint(data[at:])
		switch {
		case n == 0:
			return -1
		case tag&7 == wireBegin:
			depth++
			at += n
		case tag&7 == wireEnd:
			at += n
			if depth--; depth == 0 {
				return at
			}
		default:
			_, rest := next(data[at:])
			if rest == nil {
				return -1
			}
			at = len(data) - len(rest)
		}
	}
}

// uvarint is binary.Uvarint except that it lets numbers overflow, as generated decoders do; n is 0 if there is
// no number.
func uvarint(data []byte) (value uint64, n int) {
	for i, b := range data {
		if i == binary.MaxVarintLen64 {
			return 0, 0
		}
		if value |= uint64(b&0x7f) << (7 * i); b < 0x80 {
			return value, i + 1
		}
	}
	return 0, 0
}

package codec

import (
	"encoding/binary"
	"reflect"
)

// The forms in which protobuf writes a field.
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
	for len(data) > 0 && r.total <= r.limit {
		number, form, payload, rest := field(data)
		if data = rest; rest == nil {
			return // malformed
		}
		if of := s.fields[number]; of != nil {
			r.field(of, form, payload)
		}
	}
}

// field counts one occurrence of a field.
func (r *reader) field(s *shape, form uint64, payload []byte) {
	switch s.kind {
	case reflect.Struct:
		r.message(s, payload)
	case reflect.Pointer:
		r.total += s.each
		r.field(s.elem, form, payload)
	case reflect.Slice:
		n := 1
		if form == wireBytes && s.elem.kind == reflect.Invalid && s.each <= 8 {
			n = len(payload) // numbers, packed: at least a byte each
		}
		r.total += n * s.each
		if s.elem.kind != reflect.Invalid {
			r.field(s.elem, form, payload)
		}
	case reflect.Map:
		r.total += s.each
		for len(payload) > 0 && r.total <= r.limit {
			number, form, value, rest := field(payload)
			if payload = rest; number == 2 && rest != nil && s.elem.kind != reflect.Invalid {
				r.field(s.elem, form, value)
			}
		}
	}
}

// field splits a message behind its first field, as lenient as the generated decoders are: what these read
// must be counted. rest is nil when they would give it up, too.
func field(data []byte) (number int32, form uint64, payload, rest []byte) {
	tag, n := uvarint(data)
	if n == 0 {
		return 0, 0, nil, nil
	}
	data, form = data[n:], tag&7
	begin, size := 0, -1
	switch form {
	case wireVarint:
		if _, size = uvarint(data); size == 0 {
			size = -1
		}
	case wireFixed8:
		size = 8
	case wireFixed4:
		size = 4
	case wireBytes:
		var length uint64
		if length, begin = uvarint(data); begin > 0 && length <= uint64(len(data)) {
			size = int(length)
		}
	case wireBegin:
		size = group(data)
	}
	if size < 0 || size > len(data)-begin {
		return 0, 0, nil, nil
	}
	end := begin + size
	return int32(tag >> 3), form, data[begin:end:end], data[end:]
}

// group returns how long a group is, whose beginning is behind us; negative when it does not end.
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
			_, _, _, rest := field(data[at:])
			if rest == nil {
				return -1
			}
			at = len(data) - len(rest)
		}
	}
}

// uvarint is binary.Uvarint that lets numbers overflow, as generated decoders do; n is 0 when there is none.
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

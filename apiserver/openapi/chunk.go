package openapi

import (
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"
)

// chunk is a part of a document that is compressed on its own, and ends at a whole byte: chunks in a row are one
// compressed document.
type chunk struct {
	size     int
	crc      uint32
	sum      [sha256.Size]byte
	deflated []byte
}

// chunker makes chunks. It is not safe for concurrent use.
type chunker struct {
	compressor *flate.Writer // takes a megabyte
	buffer     bytes.Buffer
}

func (c *chunker) chunk(data []byte) (chunk, error) {
	c.buffer.Reset()
	if c.compressor == nil {
		w, err := flate.NewWriter(&c.buffer, flate.DefaultCompression)
		if err != nil {
			return chunk{}, err
		}
		c.compressor = w
	} else {
		c.compressor.Reset(&c.buffer)
	}
	if _, err := c.compressor.Write(data); err != nil {
		return chunk{}, err
	}
	if err := c.compressor.Flush(); err != nil {
		return chunk{}, err
	}
	return chunk{len(data), crc32.ChecksumIEEE(data), sha256.Sum256(data), bytes.Clone(c.buffer.Bytes())}, nil
}

// join returns the gzip file (RFC 1952) of all chunks' content.
func join(chunks []chunk) []byte {
	length := 20
	for i := range chunks {
		length += len(chunks[i].deflated)
	}
	out := append(make([]byte, 0, length), 0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff)
	crc, size := uint32(0), 0
	for i := range chunks {
		c := &chunks[i]
		out = append(out, c.deflated...)
		crc, size = joinCRC(crc, c.crc, c.size), size+c.size
	}
	out = append(out, 3, 0) // an empty last block
	out = binary.LittleEndian.AppendUint32(out, crc)
	return binary.LittleEndian.AppendUint32(out, uint32(size)) //nolint:gosec // modulo 2³², says the RFC
}

// joinCRC returns the checksum of what has the checksum a, followed by size bytes with the checksum b. Checksums are
// remainders of polynomials, with the coefficient of x⁰ in the highest bit: a is moved by x⁸ for each byte that follows.
func joinCRC(a, b uint32, size int) uint32 {
	power := uint32(1) << 23 // x⁸
	for ; size > 0; size >>= 1 {
		if size&1 == 1 {
			a = multiply(a, power)
		}
		power = multiply(power, power)
	}
	return a ^ b
}

// multiply multiplies two polynomials modulo that of the checksum.
func multiply(a, b uint32) uint32 {
	product := uint32(0)
	for ; a != 0; a <<= 1 {
		if a>>31 == 1 {
			product ^= b
		}
		carry := b & 1
		b >>= 1
		if carry == 1 {
			b ^= crc32.IEEE
		}
	}
	return product
}

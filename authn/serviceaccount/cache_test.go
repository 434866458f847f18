package serviceaccount

import (
	"encoding/binary"
	"testing"
)

func key(n int) (k cacheKey) {
	binary.BigEndian.PutUint64(k[:], uint64(n))
	return k
}

// The cache holds what was asked for lately, and no more than its size.
func TestCache(t *testing.T) {
	c := newCache()
	kept := &verified{}
	c.put(key(0), kept)
	for n := 1; n < 10*cacheSize; n++ {
		c.put(key(n), &verified{})
		if size := len(c.young) + len(c.old); size > cacheSize {
			t.Fatalf("it holds %d entries", size)
		}
		if n%1000 == 0 && c.get(key(0)) != kept {
			t.Fatalf("after %d others, what was asked for all the time is forgotten", n)
		}
	}
	if c.get(key(1)) != nil {
		t.Error("what nobody asked for is still there")
	}
}

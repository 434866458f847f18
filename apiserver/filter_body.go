package apiserver

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"
)

// bodyFilter bounds how long the body of a request may take.
type bodyFilter struct {
	timeout time.Duration // how long the body of a request over a connection may take
}

// bound makes the body count what is read of it, and fail when it takes too long.
func (f *bodyFilter) bound(x *exchange, r *http.Request) {
	if x.observed != nil && r.Body != nil {
		r.Body = countedBody{r.Body, &x.observed.request.Body}
	}
	if x.timed != nil && r.Body != nil && r.Body != http.NoBody {
		r.Body = &timedBody{ReadCloser: r.Body, response: x.timed, timeout: f.timeout}
	}
}

// countedBody counts how much of a body was read.
type countedBody struct {
	io.ReadCloser
	read *int64
}

func (c countedBody) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b)
	*c.read += int64(n)
	return n, err
}

// timedBody is a body that has to arrive in time, from when it is first read.
type timedBody struct {
	io.ReadCloser
	response *timedWriter
	timeout  time.Duration
	begun    bool
}

// Read fails with a Status when the time is over.
func (b *timedBody) Read(p []byte) (int, error) {
	if !b.begun {
		if err := b.response.beginBody(b.timeout); err != nil {
			return 0, err
		}
		b.begun = true
	}
	b.response.reading.Store(true)
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		b.response.abandonBody()
		return n, errBodyTimeout(b.timeout)
	}
	b.response.reading.Store(false)
	return n, err
}

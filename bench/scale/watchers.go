package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// watchers are watching clients, many on each connection.
type watchers struct {
	each   int // watches of a connection
	events atomic.Int64
	heard  func(n int64)
}

// playWatchers opens watches and reports that, then reports each time when all of them have received one more event.
// Its arguments are the server's directory, its address, connections×watches, and the path to watch: N in it is
// replaced by the number of a watch on its connection.
func playWatchers(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	var connections, each int64
	if _, err := fmt.Sscanf(args[2], "%dx%d", &connections, &each); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	heard := make(chan struct{}, 1<<16)
	w := &watchers{each: int(each), heard: func(n int64) {
		if n%(connections*each) == 0 {
			heard <- struct{}{}
		}
	}}
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	errs := make(chan error, connections)
	openers := make(chan struct{}, 4) // net/http gives up on connections that take more than 2 s to open
	for range connections {
		way, err := outsider(args[0])
		if err != nil {
			return err
		}
		defer way.CloseIdleConnections()
		go func() {
			openers <- struct{}{}
			errs <- w.open(ctx, &running, way, "https://"+args[1]+args[3])
			<-openers
		}()
	}
	for range connections {
		if err := <-errs; err != nil {
			return err
		}
	}
	fmt.Fprintln(out, "open")
	ended := make(chan struct{})
	go func() { defer close(ended); _, _ = io.Copy(io.Discard, in) }()
	for {
		select {
		case <-heard:
			fmt.Fprintln(out, "heard")
		case <-ended:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// open opens all watches of one connection and returns when each has started.
func (w *watchers) open(ctx context.Context, running *sync.WaitGroup, way http.RoundTripper, url string) error {
	var opening sync.WaitGroup
	errs := make([]error, w.each)
	one := func(n int) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.ReplaceAll(url, "N", strconv.Itoa(n)), nil)
		if err != nil {
			errs[n] = err
			return
		}
		resp, err := way.RoundTrip(r)
		if err != nil {
			errs[n] = err
			return
		}
		if resp.StatusCode != http.StatusOK || resp.ProtoMajor != 2 {
			errs[n] = fmt.Errorf("watch: %s %s", resp.Proto, resp.Status)
			_ = resp.Body.Close()
			return
		}
		running.Go(func() { w.read(resp.Body) })
	}
	one(0) // the others use its connection
	for n := 1; n < w.each; n++ {
		opening.Go(func() { one(n) })
	}
	opening.Wait()
	return errors.Join(errs...)
}

func (w *watchers) read(body io.ReadCloser) {
	defer body.Close()
	lines := bufio.NewReaderSize(body, 512)
	for {
		line, err := lines.ReadSlice('\n')
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = lines.ReadSlice('\n')
		}
		if err != nil {
			return
		}
		if !bytes.HasPrefix(line, []byte(`{"type":"BOOKMARK"`)) {
			w.heard(w.events.Add(1))
		}
	}
}

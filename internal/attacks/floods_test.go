package attacks

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// floods makes slow, huge and many requests, while somebody else has to be served all the time.
func (w *world) floods() {
	before := w.memory()
	ctx, stop := context.WithCancel(w.t.Context())
	var quiet sync.WaitGroup
	quiet.Go(func() { w.quiet(ctx) })
	w.slow(func() {
		w.huge()
		w.bombs()
		w.streams()
	})
	stop()
	quiet.Wait()
	// One of the bombs would take many times as much.
	const limit = 500 << 20
	after := w.memory()
	if after > limit {
		w.t.Errorf("the server took %d MiB", after>>20)
	}
	w.t.Logf("the server took %d MiB at most, %d MiB before", after>>20, before>>20)
}

// memory is the most that the server has ever used; where there is no such file, 0.
func (w *world) memory() int {
	w.t.Helper()
	if runtime.GOOS != "linux" {
		w.t.Log("the server's memory is not looked at: that takes Linux")
		return 0
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.process.PID()))
	w.check(err)
	found := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(text)
	if found == nil {
		w.t.Fatalf("no VmHWM in %s", text)
	}
	n, err := strconv.Atoi(string(found[1]))
	w.check(err)
	return n << 10
}

// quiet makes one request after the other: each has to be answered.
func (w *world) quiet(ctx context.Context) {
	reader := w.people["reader"]
	var slowest time.Duration
	n := 0
	for ; ctx.Err() == nil; n++ {
		began := time.Now()
		w.works("a quiet user", reader, request(reader, "GET", "/api/v1/namespaces/pub/pods/mine", ""))
		slowest = max(slowest, time.Since(began))
	}
	w.t.Logf("%d requests of a quiet user, the slowest %s, each with a connection of its own", n, slowest.Round(time.Millisecond))
	if n == 0 {
		w.t.Error("the quiet user was not served")
	}
}

// slow holds requests open that do not get on while others are made.
func (w *world) slow(meanwhile func()) {
	poke := w.people["slowpoke"]
	for name, begin := range map[string]string{
		"slow body":    strings.TrimSuffix(request(poke, "POST", "/api/v1/namespaces/pub/configmaps", "xx", "Content-Type: application/json"), "x"),
		"slow header":  "GET /version HTTP/1.1\r\nHost: cluster\r\nX-A: ",
		"slow chunk":   request(poke, "POST", "/api/v1/namespaces/pub/configmaps", "", "Content-Type: application/json", "Transfer-Encoding: chunked") + "5\r\nab",
		"no request":   "",
		"a slow watch": request(poke, "GET", "/apis?watch=true", ""),
	} {
		for range 100 {
			w.attempts.Add(1)
			conn, err := w.dial(identity{})
			w.check(err)
			defer func() { _ = conn.Close() }()
			if _, err := io.WriteString(conn, begin); err != nil {
				w.t.Errorf("%s: %v", name, err)
			}
		}
	}
	meanwhile()
}

// huge sends requests that are too large in one way or another. Those that the server stops reading end with the connection.
func (w *world) huge() {
	const maps = "/api/v1/namespaces/pub/configmaps"
	creator := w.people["creator"]
	for name, raw := range map[string]string{
		"a long target":        request(creator, "GET", "/version?"+strings.Repeat("a", 2<<20), ""),
		"a long header":        request(creator, "GET", "/version", "", "X-A: "+strings.Repeat("a", 2<<20)),
		"many headers":         request(creator, "GET", "/version", "", strings.TrimSuffix(strings.Repeat("X-A: b\r\n", 200_000), "\r\n")),
		"a long method":        strings.Repeat("A", 2<<20) + " / HTTP/1.1\r\nHost: cluster\r\n\r\n",
		"a promised gigabyte":  request(creator, "POST", maps, "", "Content-Type: application/json", "Content-Length: 1000000000") + strings.Repeat(" ", 8<<20),
		"many bytes":           request(creator, "POST", maps, strings.Repeat(" ", 16<<20), "Content-Type: application/json"),
		"many bytes in chunks": request(creator, "POST", maps, "", "Content-Type: application/json", "Transfer-Encoding: chunked") + strings.Repeat("fffff\r\n"+strings.Repeat(" ", 0xfffff)+"\r\n", 16),
		"a long trailer":       request(creator, "POST", maps, "", "Content-Type: application/json", "Transfer-Encoding: chunked", "Trailer: X") + "2\r\n{}\r\n0\r\nX: " + strings.Repeat("a", 2<<20) + "\r\n\r\n",
	} {
		w.refused(name, creator, raw)
	}
}

// bombs sends bodies that are small and become large.
func (w *world) bombs() {
	const maps = "/api/v1/namespaces/pub/configmaps"
	creator, patcher := w.people["creator"], w.people["patcher"]
	deep := func(left, right string, n int) string { return strings.Repeat(left, n) + strings.Repeat(right, n) }
	aliases := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'l'; c++ {
		aliases += fmt.Sprintf("%c: &%c [%s*%c]\n", c, c, strings.Repeat(fmt.Sprintf("*%c,", c-1), 8), c-1)
	}
	var zeros bytes.Buffer
	z := gzip.NewWriter(&zeros)
	_, err := io.Copy(z, io.LimitReader(blanks{}, 200<<20))
	w.check(errors.Join(err, z.Close()))
	for name, raw := range map[string]string{
		"deep JSON":               request(creator, "POST", maps, `{"data":`+deep("[", "]", 1_000_000)+"}", "Content-Type: application/json"),
		"deep JSON objects":       request(creator, "POST", maps, deep(`{"a":`, "}", 300_000), "Content-Type: application/json"),
		"an unending JSON":        request(creator, "POST", maps, strings.Repeat("[", 2_000_000), "Content-Type: application/json"),
		"a huge number":           request(creator, "POST", maps, `{"data":1e1000000000}`, "Content-Type: application/json"),
		"deep YAML":               request(creator, "POST", maps, deep("[", "]", 100_000), "Content-Type: application/yaml"),
		"aliases of YAML":         request(creator, "POST", maps, aliases, "Content-Type: application/yaml"),
		"an alias of itself":      request(creator, "POST", maps, "a: &a [*a]\n", "Content-Type: application/yaml"),
		"deep CBOR":               request(creator, "POST", maps, strings.Repeat("\x81", 1_000_000), "Content-Type: application/cbor"),
		"a promising CBOR":        request(creator, "POST", maps, "\xd9\xd9\xf7\x9b\x7f\xff\xff\xff\xff\xff\xff\xff", "Content-Type: application/cbor"),
		"a promising protobuf":    request(creator, "POST", maps, "k8s\x00\x0a\xff\xff\xff\xff\x07", "Content-Type: application/vnd.kubernetes.protobuf"),
		"deep protobuf":           request(creator, "POST", maps, "k8s\x00"+strings.Repeat("\x12\x7f", 500_000), "Content-Type: application/vnd.kubernetes.protobuf"),
		"gzip":                    request(creator, "POST", maps, zeros.String(), "Content-Type: application/json", "Content-Encoding: gzip"),
		"copies of a JSON patch":  request(patcher, "PATCH", maps+"/map", copies(), "Content-Type: application/json-patch+json"),
		"many JSON patches":       request(patcher, "PATCH", maps+"/map", "["+strings.Repeat(`{"op":"test","path":"/data/k","value":"x"},`, 30_000)+`{"op":"remove","path":"/x"}]`, "Content-Type: application/json-patch+json"),
		"a deep merge patch":      request(patcher, "PATCH", maps+"/map", `{"data":`+deep(`{"a":`, "}", 300_000)+"}", "Content-Type: application/merge-patch+json"),
		"a deep strategic patch":  request(patcher, "PATCH", maps+"/map", `{"data":`+deep(`{"a":`, "}", 300_000)+"}", "Content-Type: application/strategic-merge-patch+json"),
		"aliases, applied":        request(patcher, "PATCH", maps+"/map?fieldManager=m", aliases, "Content-Type: application/apply-patch+yaml"),
		"an unending content":     request(patcher, "PATCH", maps+"/map", strings.Repeat(`{"a":`, 500_000), "Content-Type: application/merge-patch+json"),
		"a selector of parts":     request(w.people["reader"], "GET", maps+"?labelSelector="+strings.Repeat("a,", 40_000), ""),
		"a selector of brackets":  request(w.people["reader"], "GET", maps+"?labelSelector=a+in+("+strings.Repeat("b,", 40_000), ""),
		"a continuation unending": request(w.people["reader"], "GET", maps+"?limit=1&continue="+strings.Repeat("A", 60_000), ""),
	} {
		w.refused(name, creator, raw)
	}
}

// copies is a JSON patch that doubles a value again and again.
func copies() string {
	patch := `[{"op":"add","path":"/data/a","value":"` + strings.Repeat("x", 100) + `"},{"op":"add","path":"/metadata/b","value":[]}`
	for range 40 {
		patch += `,{"op":"copy","from":"/metadata","path":"/metadata/b/-"}`
	}
	return patch + "]"
}

// blanks reads as spaces without end.
type blanks struct{}

func (blanks) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// streams uses HTTP/2 in ways that cost a server more than its client.
func (w *world) streams() {
	var head bytes.Buffer
	h := hpack.NewEncoder(&head)
	for _, f := range []hpack.HeaderField{
		{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: "cluster"}, {Name: ":path", Value: "/api/v1/namespaces/pub/configmaps"},
		{Name: "authorization", Value: "Bearer token-of-reader"},
	} {
		w.check(h.WriteField(f))
	}
	get := func(f *http2.Framer, n int) error {
		return f.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*n + 1), BlockFragment: head.Bytes(), EndHeaders: true, EndStream: true})
	}
	for name, frame := range map[string]func(f *http2.Framer, n int) error{
		"resets": func(f *http2.Framer, n int) error {
			return errors.Join(get(f, n), f.WriteRSTStream(uint32(2*n+1), http2.ErrCodeCancel))
		},
		"many requests": get,
		"settings":      func(f *http2.Framer, _ int) error { return f.WriteSettings() },
		"pings":         func(f *http2.Framer, _ int) error { return f.WritePing(false, [8]byte{}) },
		"priorities": func(f *http2.Framer, n int) error {
			return f.WritePriority(uint32(2*n+1), http2.PriorityParam{StreamDep: uint32(2*n + 3)})
		},
		"windows":         func(f *http2.Framer, _ int) error { return f.WriteWindowUpdate(0, 1<<20) },
		"empty data":      func(f *http2.Framer, n int) error { return w.empty(f, n, head.Bytes()) },
		"unending header": func(f *http2.Framer, n int) error { return w.unending(f, n, head.Bytes()) },
		"unknown frames":  func(f *http2.Framer, _ int) error { return f.WriteRawFrame(0xfe, 0, 0, make([]byte, 16<<10)) },
	} {
		w.attempts.Add(1)
		w.stream(name, frame)
	}
}

// empty opens a stream and sends data without content for ever.
func (w *world) empty(f *http2.Framer, n int, head []byte) error {
	if n == 0 {
		return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head, EndHeaders: true})
	}
	return f.WriteData(1, false, nil)
}

// unending opens a stream whose header never ends.
func (w *world) unending(f *http2.Framer, n int, head []byte) error {
	if n == 0 {
		return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head})
	}
	return f.WriteContinuation(1, false, bytes.Repeat([]byte{0x00, 0x01, 'a', 0x01, 'b'}, 3000))
}

// stream sends frames until the server ends the connection, or 20,000 of them. It reads nothing until then.
func (w *world) stream(name string, frame func(f *http2.Framer, n int) error) {
	w.t.Helper()
	conn, err := w.dial(identity{}, "h2")
	w.check(err)
	defer func() { _ = conn.Close() }()
	if conn.ConnectionState().NegotiatedProtocol != "h2" {
		w.t.Fatalf("no HTTP/2: %+v", conn.ConnectionState().NegotiatedProtocol)
	}
	w.check(conn.SetDeadline(time.Now().Add(5 * time.Second))) // a server that waits to be read is as good
	_, err = io.WriteString(conn, http2.ClientPreface)
	w.check(err)
	f := http2.NewFramer(conn, conn)
	f.AllowIllegalWrites = true
	w.check(f.WriteSettings())
	for n := range 20_000 {
		if err := frame(f, n); err != nil {
			w.t.Logf("%s: ended after %d frames", name, n)
			return
		}
	}
	w.t.Logf("%s: endured", name)
}

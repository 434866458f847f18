package apiserver_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/apiserver/health"
)

// A server that ends gently. The handler behind the drain is usually an apiserver.Server; here it
// only answers probes and one long request.
func ExampleDrain() {
	drain := apiserver.NewDrain()
	mux := http.NewServeMux()
	for path, h := range health.New(health.Options{Ready: []health.Check{health.Shutdown(drain.Begun())}}) {
		mux.Handle(path, h)
	}
	mux.HandleFunc("/debug/pprof/trace", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "as long as the client wants\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	listener := httptest.NewServer(drain.Handler(mux))
	defer listener.Close()

	stream, err := http.Get(listener.URL + "/debug/pprof/trace") //nolint:noctx // ended by the drain
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stream.Body.Close()

	drain.Begin()
	probe, err := http.Get(listener.URL + "/readyz") //nolint:noctx // answers at once
	if err != nil {
		fmt.Println(err)
		return
	}
	defer probe.Body.Close()
	fmt.Println("ready:", probe.Status)

	drain.EndStreams()
	text, err := io.ReadAll(stream.Body)
	fmt.Printf("stream: %s%v\n", text, err)

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fmt.Println("waited:", drain.Wait(ctx))
	// Output:
	// ready: 500 Internal Server Error
	// stream: as long as the client wants
	// <nil>
	// waited: <nil>
}

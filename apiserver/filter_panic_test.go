package apiserver_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/apiserver/audit"
)

func TestPanics(t *testing.T) {
	var log bytes.Buffer
	sink := &audit.Memory{}
	s := newServer(t, apiserver.Options{
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Audit:  audit.New(audit.Everything(auditv1.LevelMetadata), sink, audit.Options{}),
		Paths: map[string]http.Handler{
			"/silent": http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("nothing was said") }),
			"/late": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, "half of")
				panic("something was said")
			}),
			"/abort": http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }),
		},
	})
	w := call(s, "ann", "GET", "/silent")
	if want := "This request caused apiserver to panic. Look in the logs for details.\n"; w.Code != 500 || w.Body.String() != want {
		t.Errorf("%d %q", w.Code, w.Body)
	}
	if !strings.Contains(log.String(), "nothing was said") || !strings.Contains(log.String(), "filter_panic_test.go") {
		t.Errorf("the log tells neither panic nor place: %s", log.String())
	}
	for _, path := range []string{"/late", "/abort"} {
		func() {
			defer func() {
				if p := recover(); p != http.ErrAbortHandler { //nolint:errorlint // never wrapped
					t.Errorf("%s: recovered %v", path, p)
				}
			}()
			call(s, "ann", "GET", path)
		}()
	}
	// The same in process: the caller gets an error, not half an answer.
	transport := apiserver.NewTransport(s, nil)
	defer transport.Close()
	r := from("ann", "GET", "http://keelson/late")
	r.RequestURI = ""
	if resp, err := transport.RoundTrip(r); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("in process: %v %v", resp, err)
	}
	var stages []string
	for _, e := range sink.Events() {
		stages = append(stages, string(e.Stage))
		if e.Stage == auditv1.StagePanic && e.RequestURI == "/silent" && (e.ResponseStatus.Code != 500 || e.ResponseStatus.Message != "APIServer panic'd: nothing was said") {
			t.Errorf("status of a panic: %+v", e.ResponseStatus)
		}
	}
	if want := slices.Repeat([]string{"RequestReceived", "Panic"}, 4); !slices.Equal(stages, want) {
		t.Errorf("stages %v", stages)
	}
}

// Whatever a plugin does, the client gets an answer and the server stays.
func TestPanicIsAnAnswer(t *testing.T) {
	config := serveWith(t, apiserver.Options{Admission: admission.Chain{admission.ValidatorFunc("Panic", func(context.Context, *admission.Request) error {
		panic("on purpose")
	}, admission.Create)}})
	code, header, body := do(t, config, "POST", configMaps, "", `{"metadata":{"name":"a"}}`)
	if code != http.StatusInternalServerError || body != "This request caused apiserver to panic. Look in the logs for details.\n" || !strings.HasPrefix(header.Get("Content-Type"), "text/plain") {
		t.Errorf("%d %q %q", code, header.Get("Content-Type"), body)
	}
	if code, _, _ := do(t, config, "GET", configMaps, "", ""); code != http.StatusOK {
		t.Errorf("afterwards: %d", code)
	}
}

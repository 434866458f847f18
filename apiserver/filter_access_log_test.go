package apiserver_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/apiserver"
)

func TestAccessLog(t *testing.T) {
	var log bytes.Buffer
	s := newServer(t, apiserver.Options{
		Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Paths:  map[string]http.Handler{"/ok": says("ok")},
	})
	call(s, "ann", "GET", "/ok?access_token=s3cret&b=c", "User-Agent", "test/1", "Audit-Id", "id")
	call(s, "s3cret", "GET", "/ok?access_token=s3cret", "Audit-Id", strings.Repeat("long", 100))
	for _, want := range []string{
		`msg=request verb=get uri="/ok?access_token=REDACTED&b=c" code=200`, `user=ann agent=test/1 from=192.0.2.1:1234 size=2 audit-id=id`,
		`msg="request not authenticated" method=GET path=/ok audit-id=` + strings.Repeat("long", 16) + ` error="invalid bearer token"`,
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("missing %s in\n%s", want, log.String())
		}
	}
	if strings.Contains(log.String(), "s3cret") {
		t.Errorf("a token is in the log:\n%s", log.String())
	}
}

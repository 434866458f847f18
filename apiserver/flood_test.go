package apiserver_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/apiserver/audit"
)

// TestAuditFlood: whatever those ask for who are nobody, what others did stays on record.
func TestAuditFlood(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	file, err := audit.OpenFile(path, audit.FileOptions{MaxSize: 100_000, Keep: 2})
	if err != nil {
		t.Fatal(err)
	}
	log := audit.New(audit.Everything(auditv1.LevelRequestResponse), file, audit.Options{Strangers: audit.Budget{Bytes: 50_000, Every: time.Hour}})
	s := newServer(t, apiserver.Options{Audit: log, Paths: map[string]http.Handler{"/what-ann-read": says("read")}})
	if w := call(s, "ann", "GET", "/what-ann-read"); w.Code != 200 {
		t.Fatal(w.Code)
	}
	for range 100 {
		for _, who := range []string{"", "wrong"} {
			if w := call(s, who, "GET", "/"+strings.Repeat("x", 50_000), "User-Agent", strings.Repeat("y", 10_000), "Audit-Id", strings.Repeat("z", 10_000)); w.Code != 401 {
				t.Fatal(w.Code)
			}
		}
	}
	if err := log.Flush(); err != nil {
		t.Error(err)
	}
	if err := file.Close(); err != nil {
		t.Error(err)
	}
	var all strings.Builder
	files, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(data)
	}
	for _, want := range []string{"what-ann-read", "bytes cut]", "events of unauthenticated requests left out"} {
		if !strings.Contains(all.String(), want) {
			t.Errorf("no %q in %d bytes of %d files", want, all.Len(), len(files))
		}
	}
	if all.Len() > 70_000 || log.Stats().LeftOut == 0 {
		t.Errorf("%d bytes, %+v", all.Len(), log.Stats())
	}
}

package apiserver_test

import (
	"flag"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keelson-dev/keelson/internal/transcript"
)

var (
	record   = flag.Bool("record", false, "write the answers of upstream into the tables' records")
	binaries = flag.String("binaries", "../../bin/kubernetes-v1.37.1", "directory where kube-apiserver is kept")
)

const tables = "../../apiserver/testdata/upstream"

// TestRecords sends every table to upstream's API server.
func TestRecords(t *testing.T) {
	host := start(t, build(t, *binaries))
	files, err := filepath.Glob(filepath.Join(tables, "*.http"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no tables: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".http")
		t.Run(name, func(t *testing.T) {
			answers, err := transcript.PlayFile(t.Context(), transcript.NewPlayer(transport(), host, "admin"), file)
			if err != nil {
				t.Fatal(err)
			}
			target := strings.TrimSuffix(file, ".http") + ".json"
			if *record {
				if err := transcript.Write(target, answers); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := transcript.Read(target)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, answers); diff != "" {
				t.Errorf("upstream answers otherwise than recorded (-recorded +now):\n%s", diff)
			}
		})
	}
}

package cluster_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/cluster"
)

// TestDefaultStorageClass: of the classes that are marked as the default, lists show which is in effect.
func TestDefaultStorageClass(t *testing.T) {
	inBubble(t, cluster.Options{}, func(t *testing.T, w *world) {
		for _, name := range []string{"a", "b", "c"} {
			class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "example.com/disk"}
			if name != "c" {
				class.Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
			}
			if _, err := w.cs.StorageV1().StorageClasses().Create(w.ctx, class, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		for path, want := range map[string]string{
			"storageclasses":         "[a example.com/disk Delete Immediate false 3m] [b (default) example.com/disk Delete Immediate false 2m] [c example.com/disk Delete Immediate false 60s]",
			"storageclasses?limit=1": "[a (default) example.com/disk Delete Immediate false 3m]",
			"storageclasses/b":       "[b example.com/disk Delete Immediate false 2m]",
		} {
			data, err := w.cs.StorageV1().RESTClient().Get().RequestURI("/apis/storage.k8s.io/v1/"+path).
				SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(w.ctx).Raw()
			if err != nil {
				t.Fatal(err)
			}
			var shown metav1.Table
			if err := json.Unmarshal(data, &shown); err != nil {
				t.Fatal(err)
			}
			got := ""
			for i, row := range shown.Rows {
				if i > 0 {
					got += " "
				}
				got += fmt.Sprint(row.Cells)
			}
			if got != want {
				t.Errorf("%s: %s, want %s", path, got, want)
			}
		}
	})
}

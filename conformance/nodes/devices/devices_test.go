package devices_test

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/checkpointmanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager/checkpoint"

	"github.com/keelson-dev/keelson/kubelet/deviceplugin"
)

const name = "kubelet_internal_checkpoint"

func entry(t *testing.T, pod, container string, ids checkpoint.DevicesPerNUMA, answer *pluginapi.ContainerAllocateResponse) checkpoint.PodDevicesEntry {
	t.Helper()
	data, err := proto.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	return checkpoint.PodDevicesEntry{PodUID: pod, ContainerName: container, ResourceName: "example.com/device", DeviceIDs: ids, AllocResp: data}
}

// TestCheckpoint: each kubelet reads what the other has written, with its checksum.
func TestCheckpoint(t *testing.T) {
	env := func(v string) *pluginapi.ContainerAllocateResponse {
		return &pluginapi.ContainerAllocateResponse{Envs: map[string]string{"DEVICES": v}}
	}
	for what, entries := range map[string][]checkpoint.PodDevicesEntry{
		"nothing else": nil,
		"one":          {entry(t, "p", "main", checkpoint.DevicesPerNUMA{-1: {"a"}}, env("a"))},
		"several": {
			entry(t, "p", "main", checkpoint.DevicesPerNUMA{0: {"a", "b"}, 1: {"b", "c"}}, env("a,b,c")),
			entry(t, "p", "other", checkpoint.DevicesPerNUMA{-1: {"ü %!", "\x00"}}, &pluginapi.ContainerAllocateResponse{}),
			entry(t, "q", "main", checkpoint.DevicesPerNUMA{7: {"z"}}, env("z")),
		},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			at := filepath.Join(dir, "device-plugins")
			files, err := checkpointmanager.NewCheckpointManager(at)
			if err != nil {
				t.Fatal(err)
			}
			all := append(slices.Clone(entries), entry(t, "gone", "main", checkpoint.DevicesPerNUMA{-1: {"y"}}, env("y")))
			if err := files.CreateCheckpoint(name, checkpoint.New(all, map[string][]string{"example.com/device": {"a", "b"}, "example.com/other": {}})); err != nil {
				t.Fatal(err)
			}
			ours, err := deviceplugin.New(dir, deviceplugin.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(e.PodUID)}}
				got, err := ours.Container(t.Context(), pod, &corev1.Container{Name: e.ContainerName})
				var said []string
				for _, v := range got.Env {
					said = append(said, v.Value)
				}
				if want := envOf(t, e); err != nil || strings.Join(said, ";") != want {
					t.Errorf("%s/%s has %v, %v, want %s", e.PodUID, e.ContainerName, said, err, want)
				}
			}
			if err := ours.Release(t.Context(), "gone"); err != nil {
				t.Fatal(err)
			}
			back := checkpoint.New(nil, nil)
			if err := files.GetCheckpoint(name, back); err != nil {
				t.Fatal(err)
			}
			kept, registered := back.GetData()
			if !reflect.DeepEqual(kept, entries) {
				t.Errorf("kept is %+v\nwant %+v", kept, entries)
			}
			if len(registered) != 2 {
				t.Errorf("registered are %v", registered)
			}
			if left, err := os.ReadDir(at); err != nil || len(left) != 1 {
				t.Errorf("left are %v, %v", left, err)
			}
		})
	}
}

func envOf(t *testing.T, e checkpoint.PodDevicesEntry) string {
	t.Helper()
	var answer pluginapi.ContainerAllocateResponse
	if err := proto.Unmarshal(e.AllocResp, &answer); err != nil {
		t.Fatal(err)
	}
	return answer.GetEnvs()["DEVICES"]
}

package runtimetest

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/cri"
)

func (s suite) containerNames(t *testing.T) {
	p := pod(t, "pod")
	sandbox := s.sandbox(t, p)
	c := config(p, "main", s.Sleeper, s.pull(t, s.Sleeper))
	first := s.container(t, sandbox, c, false)
	if id, err := s.runtime.CreateContainer(s.context(t), sandbox, c, *s.pods[sandbox]); err == nil {
		t.Errorf("two containers with the same metadata: %s and %s", first, id)
	}
	c.Metadata.Attempt = 1
	if second := s.container(t, sandbox, c, false); second == first {
		t.Error("the second attempt has the id of the first")
	}
}

// live opens a stream of events and waits until it delivers one. A runtime behind a socket may handle the request after
// later ones, and miss the first changes.
func (s suite) live(t *testing.T, source cri.EventSource) cri.EventStream {
	t.Helper()
	ctx := s.context(t)
	stream, err := source.Events(ctx)
	if err != nil {
		t.Fatalf("Events: %v", err)
	}
	for try := 0; ; try++ {
		id := s.sandbox(t, pod(t, "first"))
		if err := s.runtime.RemovePodSandbox(ctx, id); err != nil {
			t.Fatal(err)
		}
		short, cancel := context.WithTimeout(ctx, s.Patience/10)
		_, err := stream.Next(short)
		cancel()
		switch {
		case err == nil:
			return stream
		case try == 20 || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded):
			t.Fatalf("no event of %d sandboxes: %v", try+1, err)
		}
	}
}

// sandboxEvents checks that the end of a sandbox is reported, under its own ID.
func (s suite) sandboxEvents(t *testing.T) {
	source, ok := s.runtime.(cri.EventSource)
	if !ok {
		t.Log("this runtime tells no events")
		return
	}
	ctx := s.context(t)
	stream := s.live(t, source)
	defer stream.Close()
	before := time.Now()
	id := s.sandbox(t, pod(t, "pod"))
	if err := s.runtime.RemovePodSandbox(ctx, id); err != nil {
		t.Fatal(err)
	}
	var told []cri.EventType
	for !slices.Contains(told, cri.EventDeleted) {
		batch, err := stream.Next(ctx)
		if err != nil {
			t.Fatalf("Next after %v: %v", told, err)
		}
		for _, e := range batch {
			if e.ID != id {
				continue
			}
			told = append(told, e.Type)
			if e.At.Before(before.Add(-time.Second)) || e.At.After(time.Now().Add(time.Second)) {
				t.Errorf("an event of %v", e.At)
			}
		}
	}
	for _, want := range []cri.EventType{cri.EventStarted, cri.EventStopped} {
		if !slices.Contains(told, want) {
			t.Errorf("events %v lack %d", told, want)
		}
	}
}

func (s suite) stats(t *testing.T) {
	reader, ok := s.runtime.(cri.StatsReader)
	if !ok {
		t.Log("this runtime tells no statistics")
		return
	}
	sandbox, id := s.running(t, s.Sleeper)
	var got cri.ContainerStats
	s.eventually(t, "there are statistics", func() bool {
		list, err := reader.ListContainerStats(s.context(t), cri.Filter{ID: id})
		if err != nil || len(list) != 1 {
			t.Fatalf("ListContainerStats: %v, %v", list, err)
		}
		got = list[0]
		return !got.CPU.At.IsZero() && !got.Memory.At.IsZero() && got.Memory.WorkingSet > 0
	})
	switch {
	case got.ID != id, got.Metadata.Name != "main", got.Labels[cri.LabelContainerName] != "main", got.Annotations["runtimetest"] != "main":
		t.Errorf("statistics of %s are told of %+v", id, got)
	case time.Since(got.CPU.At) > time.Minute, time.Since(got.Memory.At) > time.Minute:
		t.Errorf("statistics are of %v and %v", got.CPU.At, got.Memory.At)
	}
	pods, err := reader.ListSandboxStats(s.context(t), cri.Filter{ID: sandbox})
	switch {
	case errors.Is(err, cri.ErrUnsupported):
		t.Log("this runtime tells no statistics of sandboxes")
	case err != nil || len(pods) != 1:
		t.Errorf("ListSandboxStats: %v, %v", pods, err)
	case pods[0].ID != sandbox, pods[0].Metadata.Name != "pod", pods[0].Labels[cri.LabelPodName] != "pod":
		t.Errorf("statistics of %s are told of %+v", sandbox, pods[0])
	case len(pods[0].Containers) != 1 || pods[0].Containers[0].ID != id:
		t.Errorf("statistics of a sandbox tell of the containers %+v", pods[0].Containers)
	}
}

func (s suite) statsFilters(t *testing.T) {
	reader, ok := s.runtime.(cri.StatsReader)
	if !ok {
		return
	}
	sandboxA, a := s.running(t, s.Sleeper)
	p := pod(t, "other")
	sandboxB := s.sandbox(t, p)
	b := s.container(t, sandboxB, config(p, "main", s.Sleeper, s.pull(t, s.Sleeper)), true)
	for _, c := range []struct {
		what   string
		filter cri.Filter
		want   []string
	}{
		{"by sandbox", cri.Filter{SandboxID: sandboxA}, []string{a}},
		{"by uid", cri.Filter{Labels: map[string]string{cri.LabelPodUID: p.Metadata.UID}}, []string{b}},
		{"by id and the wrong sandbox", cri.Filter{ID: a, SandboxID: sandboxB}, nil},
		{"unknown", cri.Filter{ID: "unknown"}, nil},
	} {
		list, err := reader.ListContainerStats(s.context(t), c.filter)
		if err != nil {
			t.Fatalf("ListContainerStats: %v", err)
		}
		var got []string
		for _, item := range list {
			got = append(got, item.ID)
		}
		same(t, c.what, got, c.want)
	}
}

func (s suite) filesystem(t *testing.T) {
	reader, ok := s.runtime.(cri.FilesystemReader)
	if !ok {
		t.Log("this runtime tells no filesystem")
		return
	}
	s.pull(t, s.Sleeper)
	s.eventually(t, "the image takes space", func() bool {
		images, containers, err := reader.ImageFilesystem(s.context(t))
		if err != nil || images.At.IsZero() || images.Mountpoint == "" || containers.Mountpoint == "" {
			t.Fatalf("ImageFilesystem: %+v, %+v, %v", images, containers, err)
		}
		if s.Shell != "" {
			if _, err := os.Stat(images.Mountpoint); err != nil {
				t.Fatal(err)
			}
		}
		return images.UsedBytes > 0
	})
}

// reopenLog checks the calls; logRotation checks their effect.
func (s suite) reopenLog(t *testing.T) {
	reopener, ok := s.runtime.(cri.LogReopener)
	if !ok {
		return
	}
	is(t, "ReopenContainerLog of an unknown container", reopener.ReopenContainerLog(s.context(t), "unknown"), cri.ErrNotFound)
	_, id := s.running(t, s.Sleeper)
	if err := reopener.ReopenContainerLog(s.context(t), id); err != nil {
		t.Errorf("ReopenContainerLog: %v", err)
	}
	if err := s.runtime.StopContainer(s.context(t), id, s.Patience); err != nil {
		t.Fatal(err)
	}
	if err := reopener.ReopenContainerLog(s.context(t), id); err == nil {
		t.Error("the log of a container that has ended is reopened")
	}
}

func (s suite) resize(t *testing.T) {
	resizer, ok := s.runtime.(cri.Resizer)
	if !ok {
		return
	}
	is(t, "UpdateContainerResources of an unknown container",
		resizer.UpdateContainerResources(s.context(t), "unknown", cri.Resources{CPUShares: 100}), cri.ErrNotFound)
	p := pod(t, "pod")
	sandbox := s.sandbox(t, p)
	c := config(p, "main", s.Sleeper, s.pull(t, s.Sleeper))
	c.Resources = cri.Resources{CPUShares: 128, CPUQuota: 20_000, CPUPeriod: 100_000, MemoryLimit: 64 << 20}
	id := s.container(t, sandbox, c, true)
	check := func(shares, memory int64) {
		t.Helper()
		r := s.state(t, id).Resources
		if r == nil {
			t.Log("this runtime does not tell resources")
			return
		}
		if r.CPUShares != shares || r.MemoryLimit != memory || r.CPUQuota != 20_000 || r.CPUPeriod != 100_000 {
			t.Errorf("resources are %+v, want shares %d and memory %d", *r, shares, memory)
		}
	}
	check(128, 64<<20)
	if err := resizer.UpdateContainerResources(s.context(t), id, cri.Resources{CPUShares: 256}); err != nil {
		t.Fatalf("UpdateContainerResources: %v", err)
	}
	check(256, 64<<20)
	if err := resizer.UpdateContainerResources(s.context(t), id, cri.Resources{MemoryLimit: 96 << 20}); err != nil {
		t.Fatalf("UpdateContainerResources: %v", err)
	}
	check(256, 96<<20)
}

func (s suite) configured(t *testing.T) {
	configured, ok := s.runtime.(cri.Configured)
	if !ok {
		return
	}
	driver, err := configured.CgroupDriver(s.context(t))
	if err != nil && !errors.Is(err, cri.ErrUnsupported) || driver != cri.CgroupDriverCgroupfs && driver != cri.CgroupDriverSystemd {
		t.Errorf("CgroupDriver: %v, %v", driver, err)
	}
	if err := configured.UpdateRuntimeConfig(s.context(t), "10.200.0.0/24"); err != nil && !errors.Is(err, cri.ErrUnsupported) {
		t.Errorf("UpdateRuntimeConfig: %v", err)
	}
}

// streamURLs checks the calls; the URLs are tested if there is a Connector.
func (s suite) streamURLs(t *testing.T) {
	streamer, ok := s.runtime.(cri.Streamer)
	if !ok {
		return
	}
	ctx := s.context(t)
	out := cri.Streams{Stdout: true}
	sandbox, id := s.running(t, s.Sleeper)
	calls := map[string]func(container, pod string) (string, error){
		"Exec": func(container, _ string) (string, error) {
			return streamer.Exec(ctx, cri.ExecRequest{ContainerID: container, Command: []string{"true"}, Streams: out})
		},
		"Attach": func(container, _ string) (string, error) {
			return streamer.Attach(ctx, cri.AttachRequest{ContainerID: container, Streams: out})
		},
		"PortForward": func(_, pod string) (string, error) { return streamer.PortForward(ctx, pod, []int32{80}) },
	}
	for name, call := range calls {
		url, err := call(id, sandbox)
		if errors.Is(err, cri.ErrUnsupported) {
			t.Logf("%s is not supported: %v", name, err)
			continue
		}
		if err != nil || url == "" {
			t.Errorf("%s: %q, %v", name, url, err)
		}
		if url, err := call("unknown", "unknown"); !errors.Is(err, cri.ErrNotFound) {
			t.Errorf("%s of what is not there: %q, %v", name, url, err)
		}
	}
	if err := s.runtime.StopPodSandbox(ctx, sandbox); err != nil {
		t.Fatal(err)
	}
	for name, call := range calls {
		if url, err := call(id, sandbox); err == nil {
			t.Errorf("%s of what has ended: %q", name, url)
		}
	}
}

func (s suite) pullAndRemove(t *testing.T) {
	if s.Pullable == "" {
		return
	}
	ctx, spec := s.context(t), cri.ImageSpec{Image: s.Pullable}
	if err := s.runtime.RemoveImage(ctx, spec); err != nil {
		t.Fatalf("RemoveImage: %v", err)
	}
	_, err := s.runtime.ImageStatus(ctx, spec)
	is(t, "ImageStatus before the pull", err, cri.ErrNotFound)
	var refs []string
	for range 2 {
		ref, err := s.runtime.PullImage(ctx, spec, nil)
		if err != nil {
			t.Fatalf("PullImage: %v", err)
		}
		refs = append(refs, ref)
	}
	if refs[0] != refs[1] {
		t.Errorf("the same image is %s and %s", refs[0], refs[1])
	}
	byRef, err := s.runtime.ImageStatus(ctx, cri.ImageSpec{Image: refs[0]})
	if err != nil || byRef.Size == 0 || len(byRef.Tags)+len(byRef.Digests) == 0 {
		t.Errorf("ImageStatus of %s: %+v, %v", refs[0], byRef, err)
	}
	for range 2 {
		if err := s.runtime.RemoveImage(ctx, spec); err != nil {
			t.Errorf("RemoveImage: %v", err)
		}
	}
	_, err = s.runtime.ImageStatus(ctx, spec)
	is(t, "ImageStatus after the removal", err, cri.ErrNotFound)
}

func (s suite) pullPrivate(t *testing.T) {
	if s.Private == "" {
		return
	}
	ctx, spec := s.context(t), cri.ImageSpec{Image: s.Private}
	for name, auth := range map[string]*cri.Auth{"nobody": nil, "a stranger": {Username: "stranger", Password: "wrong"}} {
		if ref, err := s.runtime.PullImage(ctx, spec, auth); err == nil {
			t.Errorf("%s pulled %s", name, ref)
		}
	}
	if _, err := s.runtime.PullImage(ctx, spec, s.Auth); err != nil {
		t.Errorf("PullImage by one who may: %v", err)
	}
	if err := s.runtime.RemoveImage(ctx, spec); err != nil {
		t.Errorf("RemoveImage: %v", err)
	}
}

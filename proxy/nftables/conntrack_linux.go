package nftables

import (
	"iter"

	"github.com/keelson-dev/keelson/proxy"
)

func (w *Writer) flows(iter.Seq[proxy.Service]) {}

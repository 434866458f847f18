// Package nft writes tables of nftables: chains, rules of expressions, sets and maps with their elements, as messages of
// package nfnetlink. A Likeness tells whether others have changed a table.
package nft

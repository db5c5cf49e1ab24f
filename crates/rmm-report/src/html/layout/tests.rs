//! The layout of heap maps: where pieces go, and that nothing is lost or out of bounds.

use proptest::prelude::*;

use super::*;

const KIB: u64 = 1024;

fn live(segment: u32, offset: u64, size: u64, stream: u32) -> HeapBlock {
    HeapBlock { segment, offset, size, state: BlockState::Live, stream }
}

fn free(segment: u32, offset: u64, size: u64) -> HeapBlock {
    HeapBlock { segment, offset, size, state: BlockState::Free, stream: 0 }
}

#[test]
fn no_blocks_no_rows() {
    assert_eq!(layout(&[], 1000).rows.len(), 0);
}

#[test]
fn a_segment_longer_than_a_row_goes_on_in_the_next() {
    // 33 rows of 4 KiB are one too many, so rows are 8 KiB.
    let blocks = [live(0, 0, 12 * KIB, 5), free(0, 12 * KIB, 120 * KIB)];
    let layout = layout(&blocks, 800);
    assert_eq!((layout.row_bytes, layout.rows.len()), (8 * KIB, 17));
    assert_eq!(layout.rows[0].wide, [Span { start: 0, end: 800, stream: 5 }]);
    assert_eq!(layout.rows[1].wide, [Span { start: 0, end: 400, stream: 5 }]);
    assert!(layout.rows[2].wide.is_empty() && layout.rows[2].fine.is_empty());
    assert_eq!((layout.rows[16].offset, layout.rows[16].pixels), (128 * KIB, 400));
}

#[test]
fn addresses_without_memory_are_gaps_and_no_free_memory() {
    // 8 bytes a pixel; the segment goes on in a second row.
    let blocks = [
        free(0, 5120, KIB),
        live(0, 2052, 4, 1),
        free(0, 1024, 1024),
        live(0, 6152, 1000, 1),
        free(3, 0, KIB),
    ];
    let layout = layout(&blocks, 512);
    let gaps: Vec<_> = layout.rows.iter().map(|row| row.gaps.clone()).collect();
    // The four bytes between the first two blocks are less than a pixel.
    assert_eq!(gaps, [vec![0..128, 257..512], vec![0..128, 256..257], vec![]]);
    assert_eq!(layout.gap_bytes, 1024 + 4 + (5120 - 2056) + (6152 - 6144));
}

#[test]
fn strips_have_the_same_scale() {
    let layout = layout(&[free(0, 0, 4 * KIB), free(7, 0, KIB)], 800);
    let rows: Vec<_> = layout.rows.iter().map(|row| (row.segment, row.pixels)).collect();
    assert_eq!(rows, [(0, 800), (7, 200)]);
}

#[test]
fn a_pixel_belongs_to_the_stream_with_the_most_bytes_in_it() {
    // 8 bytes a pixel.
    let blocks = [
        live(0, 0, 2, 1),
        live(0, 2, 5, 2),
        live(0, 8, 8, 2),
        live(0, 16, 8, 1),
        free(0, 24, 4072),
    ];
    let layout = layout(&blocks, 512);
    let fine = [Span { start: 0, end: 2, stream: 2 }, Span { start: 2, end: 3, stream: 1 }];
    assert_eq!(layout.rows[0].fine, fine);
    assert!(layout.rows[0].wide.is_empty());
}

#[test]
fn of_too_many_segments_the_largest_are_shown() {
    let blocks: Vec<HeapBlock> = (0..40).map(|i| live(i, 0, u64::from(i + 1) * KIB, 0)).collect();
    let layout = layout(&blocks, 1000);
    assert_eq!(layout.segments, 40);
    // Segments 0 to 7, of 1 to 8 KiB.
    assert_eq!(layout.hidden, (8, 36 * KIB));
    let shown: Vec<u32> = layout.rows.iter().map(|row| row.segment).collect();
    assert_eq!(shown, (8..40).collect::<Vec<_>>());
}

proptest! {
    #[test]
    fn any_blocks_fit(blocks in prop::collection::vec(
        (0..50_u32, any::<u64>(), 0..64_u32, any::<u64>(), 0..64_u32, any::<bool>(), any::<u32>()), 0..100)) {
        let block = |(segment, offset, offset_shift, size, size_shift, is_live, stream): (_, u64, _, u64, _, _, _)| HeapBlock {
            segment,
            offset: offset >> offset_shift,
            size: size >> size_shift,
            state: if is_live { BlockState::Live } else { BlockState::Free },
            stream,
        };
        let blocks: Vec<HeapBlock> = blocks.into_iter().map(block).collect();
        let layout = layout(&blocks, 1000);
        prop_assert!(layout.rows.len() <= MAX_ROWS);
        for row in &layout.rows {
            prop_assert!((1..=1000).contains(&row.pixels));
            prop_assert!(row.gaps.iter().all(|gap| gap.start < gap.end && gap.end <= row.pixels));
            for span in row.fine.iter().chain(&row.wide) {
                prop_assert!(span.start < span.end && span.end <= row.pixels, "{span:?} of {}", row.pixels);
            }
        }
        // Every live block of a segment that is shown left at least a pixel.
        for block in blocks.iter().filter(|block| block.state == BlockState::Live && block.size > 0) {
            let mut rows = layout.rows.iter().filter(|row| row.segment == block.segment).peekable();
            prop_assert!(rows.peek().is_none() || rows.any(|row| !row.fine.is_empty() || !row.wide.is_empty()));
        }
    }
}
